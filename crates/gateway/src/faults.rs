//! Injected faults, to test reproducibly how an agent handles errors of the model API.

use std::time::Duration;

/// Faults in some of a key's calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// The seed that selects the calls.
    pub seed: u64,
    /// The share of calls with a fault, from 0 to 1.
    pub rate: f64,
    /// The faults to choose from, with equal probability.
    pub kinds: Vec<Fault>,
}

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A delay of the response.
    Latency(Duration),
    /// An error response with this status.
    Status(u16),
    /// An interruption after this number of bytes.
    CutAfter(u64),
}

impl Faults {
    /// The fault of the call with this number, if any.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is smaller than a length, which is a usize"
    )]
    pub(crate) fn of_call(&self, call: u64) -> Option<Fault> {
        let bits = mix(self.seed ^ mix(call));
        // 53 bits fill a float exactly.
        let share = (bits >> 11) as f64 / (1_u64 << 53) as f64;
        if share >= self.rate || self.kinds.is_empty() {
            return None;
        }
        let index = mix(bits) % self.kinds.len() as u64;
        self.kinds.get(index as usize).copied()
    }
}

/// Spreads the bits of a number evenly (the finaliser of `SplitMix64`).
fn mix(value: u64) -> u64 {
    let mut bits = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(seed: u64, rate: f64) -> Vec<Option<Fault>> {
        let kinds = vec![Fault::Status(529), Fault::CutAfter(1)];
        let faults = Faults { seed, rate, kinds };
        (1..=1000).map(|call| faults.of_call(call)).collect()
    }

    #[test]
    fn seed_selects_the_same_calls_at_the_configured_rate() {
        assert_eq!(hits(7, 0.2), hits(7, 0.2));
        assert_ne!(hits(7, 0.2), hits(8, 0.2));
        let count = hits(7, 0.2).iter().flatten().count();
        assert!((150..250).contains(&count), "{count}");
        assert_eq!(hits(7, 0.0).iter().flatten().count(), 0);
        assert_eq!(hits(7, 1.0).iter().flatten().count(), 1000);
    }
}
