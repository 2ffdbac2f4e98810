//! A parallel map over a slice whose results keep the order of the items.

use std::{
    num::NonZero,
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

/// The maximum number of items that a worker processes before it passes on their results.
const MAX_CHUNK: usize = 32;
/// Work that reads files mostly waits for the disk, so a few more workers than CPUs help.
const MIN_WORKERS: usize = 4;
/// More workers would only wait for the disk and for `take`.
const MAX_WORKERS: usize = 8;

/// Runs `work` in parallel on each item and its index, and passes the results to `take` in order.
///
/// Stops at the first error of `take`. Only a few results wait for `take`, so memory does not grow with the
/// number of items.
pub fn parallel_for_each<T: Sync, R: Send, E>(
    items: &[T],
    work: impl Fn(usize, &T) -> R + Sync,
    mut take: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = processors.clamp(MIN_WORKERS, MAX_WORKERS).min(items.len());
    // Several chunks for each worker, because items take different times.
    let size = (items.len() / (4 * workers.max(1))).clamp(1, MAX_CHUNK);
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
                    // The receiver is gone after an error of `take`.
                    if sender.send(done.collect::<Vec<R>>()).is_err() {
                        return;
                    }
                }
            });
            receiver
        };
        let queues: Vec<Receiver<Vec<R>>> = (0..workers).map(start).collect();
        for queue in queues.iter().cycle().take(chunks) {
            // The scope propagates the panic of a worker.
            let Ok(done) = queue.recv() else { break };
            done.into_iter().try_for_each(&mut take)?;
        }
        Ok(())
    })
}

/// Maps each item in parallel; results are in the order of the items.
pub fn parallel_map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut all = Vec::with_capacity(items.len());
    let keep = |result| {
        all.push(result);
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = parallel_for_each(items, |_, item| work(item), keep);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for length in [0, 1, 2, 33, 1000] {
            let items: Vec<usize> = (0..length).collect();
            let slow_at_first = |item: &usize| {
                let wait = u64::from(item.is_multiple_of(100));
                thread::sleep(std::time::Duration::from_millis(wait));
                item * 2
            };
            let doubled: Vec<usize> = (0..length).map(|item| item * 2).collect();
            assert_eq!(parallel_map(&items, slow_at_first), doubled);
        }
    }

    #[test]
    fn error_of_take_ends_the_work() {
        let items: Vec<usize> = (0..5000).collect();
        let mut taken = 0;
        let ended = parallel_for_each(
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
