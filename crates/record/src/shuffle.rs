//! A shuffle with the same order for the same seed, on every machine and in every version.

/// A random number generator (SplitMix64): small, fast, and stable.
#[derive(Clone, Debug)]
pub struct Shuffle {
    state: u64,
}

impl Shuffle {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Shuffle {
        Shuffle { state: seed }
    }

    /// Shuffles a list.
    pub fn apply<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        // The bias of the remainder is negligible for any suite.
        let bound = u64::try_from(bound).expect("a length fits into u64");
        usize::try_from(self.next_u64() % bound).expect("the value is less than a length")
    }

    /// The next random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_is_a_permutation_that_depends_on_the_seed() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..20).collect();
            Shuffle::new(seed).apply(&mut items);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_match_the_published_generator() {
        let mut shuffle = Shuffle::new(1_234_567);
        assert_eq!(shuffle.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(shuffle.next_u64(), 3_203_168_211_198_807_973);
    }
}
