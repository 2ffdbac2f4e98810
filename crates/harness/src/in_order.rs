//! The same work for each of many items, on all processors, with the results in the order of the items.
//! No more than a few results wait to be taken, so memory does not grow with the number of items.

use std::{
    num::NonZero,
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

/// At most so many items are worked on before the results are handed over.
const LARGEST_CHUNK: usize = 32;
/// More than so many would only wait for the disk and for whoever takes the results.
const MOST_WORKERS: usize = 8;

/// Do `work` for each item and its number, and have every result taken, the first one first. Ends at the first error
/// of whoever takes.
pub(crate) fn in_order<T: Sync, R: Send, E>(
    items: &[T],
    work: impl Fn(usize, &T) -> R + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = processors.min(MOST_WORKERS).min(items.len());
    // Several for each worker, because not all items take the same time.
    let size = (items.len() / (4 * workers.max(1))).clamp(1, LARGEST_CHUNK);
    let chunks = items.len().div_ceil(size);
    if workers < 2 {
        let mut all = items.iter().enumerate();
        return all.try_for_each(|(number, item)| take(work(number, item)));
    }
    thread::scope(|scope| {
        let start = |worker: usize| {
            let (sender, receiver) = sync_channel(2);
            let work = &work;
            scope.spawn(move || {
                let own = items.chunks(size).enumerate();
                for (chunk, items) in own.skip(worker).step_by(workers) {
                    let items = items.iter().enumerate();
                    let done = items.map(|(place, item)| work(chunk * size + place, item));
                    // Nobody takes any more: somebody else's error is on its way.
                    if sender.send(done.collect::<Vec<R>>()).is_err() {
                        return;
                    }
                }
            });
            receiver
        };
        let queues: Vec<Receiver<Vec<R>>> = (0..workers).map(start).collect();
        for queue in queues.iter().cycle().take(chunks) {
            // A worker that panics says so when the scope ends.
            let Ok(done) = queue.recv() else { break };
            done.into_iter().try_for_each(&mut take)?;
        }
        Ok(())
    })
}

/// The same where nothing can go wrong.
pub(crate) fn map_in_order<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut all = Vec::with_capacity(items.len());
    let keep = |result| {
        all.push(result);
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = in_order(items, |_, item| work(item), keep);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for length in [0, 1, 2, 33, 1000] {
            let items: Vec<usize> = (0..length).collect();
            let slow_at_first = |item: &usize| {
                let wait = u64::from(item.is_multiple_of(100));
                thread::sleep(std::time::Duration::from_millis(wait));
                item * 2
            };
            let doubled: Vec<usize> = (0..length).map(|item| item * 2).collect();
            assert_eq!(map_in_order(&items, slow_at_first), doubled);
        }
    }

    #[test]
    fn whoever_takes_can_end_it() {
        let items: Vec<usize> = (0..5000).collect();
        let mut taken = 0;
        let ended = in_order(
            &items,
            |number, item| number + item,
            |sum| {
                taken += 1;
                if sum == 2 * 99 { Err(sum) } else { Ok(()) }
            },
        );
        assert_eq!((ended, taken), (Err(2 * 99), 100));
    }
}
