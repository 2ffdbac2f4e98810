//! Limits on money, tokens and calls, with a reservation for every call that is under way.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::pricing::NanoUsd;

/// The limits of a budget. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most money.
    pub usd: Option<NanoUsd>,
    /// The most tokens, of every kind.
    pub tokens: Option<u64>,
    /// The most calls.
    pub calls: Option<u64>,
}

/// The response header that names the exhausted limit. A gateway behind another one, as on a cluster node,
/// uses it to distinguish a spent budget from a rejected key.
pub(crate) const EXHAUSTED_HEADER: &str = "x-proctor-exhausted";

/// The limit that stopped a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exhausted {
    /// The budget in USD is spent.
    Usd,
    /// The budget in tokens is spent.
    Tokens,
    /// The budget in calls is spent.
    Calls,
    /// The budget is in USD and the price of the model is unknown.
    UnknownPrice,
}

impl Exhausted {
    /// The name in logs and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usd => "usd",
            Self::Tokens => "tokens",
            Self::Calls => "calls",
            Self::UnknownPrice => "unknown_price",
        }
    }

    /// The limit with this name.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        let all = [Self::Usd, Self::Tokens, Self::Calls, Self::UnknownPrice];
        all.into_iter()
            .find(|limit| limit.name().as_bytes() == name)
    }

    /// The error message for the client.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Usd => "budget exceeded: the USD budget of this key is spent",
            Self::Tokens => "budget exceeded: the token budget of this key is spent",
            Self::Calls => "budget exceeded: the call budget of this key is spent",
            Self::UnknownPrice => {
                "budget exceeded: this key has a USD budget and the price of the model is unknown"
            }
        }
    }
}

/// An actual or possible cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) usd: Option<NanoUsd>,
    pub(crate) tokens: u64,
}

/// A budget: one key's own, or one that many keys share.
///
/// A call starts while the spent and reserved amounts are below the limit, so at most one call exceeds it.
/// A call that does not fit only because of reservations waits until they are settled: an estimate never
/// exhausts a budget.
#[derive(Debug, Default)]
pub struct Budget {
    limits: Limits,
    state: Mutex<BudgetState>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct BudgetState {
    usd: NanoUsd,
    tokens: u64,
    calls: u64,
    reserved_usd: NanoUsd,
    reserved_tokens: u64,
}

enum Reservation {
    Granted,
    Wait,
    Refused(Exhausted),
}

impl Budget {
    /// A budget with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Money spent so far, as far as prices are known.
    pub fn spent(&self) -> NanoUsd {
        self.lock().usd
    }

    /// Reserves the possible cost of a call, as soon as it fits.
    pub(crate) async fn reserve(&self, may_cost: Amount) -> Result<(), Exhausted> {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Registered before the check, so that no settlement in between is missed.
            settled.as_mut().enable();
            match self.try_reserve(may_cost) {
                Reservation::Granted => return Ok(()),
                Reservation::Refused(why) => return Err(why),
                Reservation::Wait => settled.await,
            }
        }
    }

    fn try_reserve(&self, may_cost: Amount) -> Reservation {
        let limits = self.limits;
        let mut state = self.lock();
        if limits.calls.is_some_and(|most| state.calls >= most) {
            return Reservation::Refused(Exhausted::Calls);
        }
        if limits.tokens.is_some_and(|most| state.tokens >= most) {
            return Reservation::Refused(Exhausted::Tokens);
        }
        if limits.usd.is_some_and(|most| state.usd >= most) {
            return Reservation::Refused(Exhausted::Usd);
        }
        if limits.usd.is_some() && may_cost.usd.is_none() {
            return Reservation::Refused(Exhausted::UnknownPrice);
        }
        let tokens = state.tokens.saturating_add(state.reserved_tokens);
        let usd = state.usd.plus(state.reserved_usd);
        let full = limits.tokens.is_some_and(|most| tokens >= most)
            || limits.usd.is_some_and(|most| usd >= most);
        if full {
            return Reservation::Wait;
        }
        state.calls += 1;
        state.reserved_tokens = state.reserved_tokens.saturating_add(may_cost.tokens);
        state.reserved_usd = state.reserved_usd.plus(may_cost.usd.unwrap_or_default());
        Reservation::Granted
    }

    /// Replaces a reservation by the actual cost.
    pub(crate) fn settle(&self, reserved: Amount, did_cost: Amount) {
        {
            let mut state = self.lock();
            state.reserved_tokens = state.reserved_tokens.saturating_sub(reserved.tokens);
            state.reserved_usd = state.reserved_usd.minus(reserved.usd.unwrap_or_default());
            state.tokens = state.tokens.saturating_add(did_cost.tokens);
            state.usd = state.usd.plus(did_cost.usd.unwrap_or_default());
        }
        self.settled.notify_waiters();
    }

    /// Undoes the reservation of a call that was not made.
    pub(crate) fn give_back(&self, reserved: Amount) {
        {
            let mut state = self.lock();
            state.calls = state.calls.saturating_sub(1);
        }
        self.settle(reserved, Amount::default());
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn usd(nano: i64) -> Amount {
        Amount {
            usd: Some(NanoUsd(nano)),
            tokens: 1,
        }
    }

    #[tokio::test]
    async fn concurrent_calls_exceed_the_budget_by_less_than_one_call() {
        let limits = Limits {
            usd: Some(NanoUsd(1000)),
            ..Limits::default()
        };
        let budget = Arc::new(Budget::new(limits));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let budget = Arc::clone(&budget);
            tasks.spawn(async move {
                budget.reserve(usd(300)).await?;
                tokio::task::yield_now().await;
                budget.settle(usd(300), usd(150));
                Ok::<(), Exhausted>(())
            });
        }
        let ends = tasks.join_all().await;
        let granted = ends.iter().filter(|end| end.is_ok()).count();
        assert_eq!(granted, 7, "7 × 150 is the first sum at or over 1000");
        assert_eq!(budget.spent(), NanoUsd(1050));
        assert!(
            ends.iter()
                .filter_map(|e| e.err())
                .all(|e| e == Exhausted::Usd)
        );
    }

    #[tokio::test]
    async fn call_and_token_limits_are_enforced() {
        let budget = Budget::new(Limits {
            calls: Some(1),
            ..Limits::default()
        });
        budget.reserve(Amount::default()).await.unwrap();
        assert_eq!(
            budget.reserve(Amount::default()).await,
            Err(Exhausted::Calls)
        );
        let budget = Budget::new(Limits {
            tokens: Some(10),
            ..Limits::default()
        });
        let ten = Amount {
            usd: None,
            tokens: 10,
        };
        budget.reserve(ten).await.unwrap();
        budget.settle(ten, ten);
        assert_eq!(budget.reserve(ten).await, Err(Exhausted::Tokens));
    }

    #[tokio::test]
    async fn usd_budget_refuses_unknown_prices() {
        let limits = Limits {
            usd: Some(NanoUsd(1)),
            ..Limits::default()
        };
        let end = Budget::new(limits).reserve(Amount::default()).await;
        assert_eq!(end, Err(Exhausted::UnknownPrice));
    }
}
