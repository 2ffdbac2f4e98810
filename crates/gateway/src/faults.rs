//! Faults on demand: what an agent does when the model API misbehaves can be tested, the same way each
//! time.

use std::time::Duration;

/// Faults that hit some of a key's calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// The same seed hits the same calls.
    pub seed: u64,
    /// The share of calls that are hit, from 0 to 1.
    pub rate: f64,
    /// What may happen to a call that is hit, each as likely as the others.
    pub kinds: Vec<Fault>,
}

/// One way to misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The answer comes later by this.
    Latency(Duration),
    /// The call is refused with this status and the API's own error.
    Status(u16),
    /// The answer breaks off after so many bytes.
    CutAfter(u64),
}

impl Faults {
    /// What befalls the call of this number.
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
    fn a_seed_hits_the_same_calls_and_about_as_many_as_asked() {
        assert_eq!(hits(7, 0.2), hits(7, 0.2));
        assert_ne!(hits(7, 0.2), hits(8, 0.2));
        let count = hits(7, 0.2).iter().flatten().count();
        assert!((150..250).contains(&count), "{count}");
        assert_eq!(hits(7, 0.0).iter().flatten().count(), 0);
        assert_eq!(hits(7, 1.0).iter().flatten().count(), 1000);
    }
}
