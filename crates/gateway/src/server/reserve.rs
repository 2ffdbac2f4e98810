//! Reserves the highest possible cost of a call before the call is made.

use crate::budget::{Amount, Exhausted};
use crate::call::ActiveCall;
use crate::key::Key;
use crate::request::CheckedRequest;
use crate::state::GatewayState;

/// The output in tokens to reserve for a request that sets no limit.
const USUAL_OUTPUT: u64 = 8192;

/// Tokens that providers add to a prompt, mostly for tools.
const HIDDEN_PROMPT: u64 = 1000;

/// Reserves the cost of a call on the key's budget and on shared budgets.
pub(super) async fn reserve(
    state: &GatewayState,
    key: &Key,
    request: &CheckedRequest,
    active: &mut ActiveCall,
) -> Result<(), Exhausted> {
    // Every text has more than two bytes per token.
    let prompt = HIDDEN_PROMPT + request.body.len() as u64 / 2;
    let choices = request.choices.unwrap_or(1).max(1);
    let longest = request.max_tokens.map(|most| most.saturating_mul(choices));
    let output = longest.unwrap_or(USUAL_OUTPUT.saturating_mul(choices));
    let model = request.effective_model().unwrap_or_default();
    let at_most = || state.prices.at_most(model, prompt, output);
    let amount = Amount {
        usd: (!request.has_other_price).then(at_most).flatten(),
        tokens: prompt.saturating_add(output),
    };
    let mut held = HeldReservations {
        key,
        amount,
        count: 0,
    };
    key.budget.reserve(amount).await?;
    held.count = 1;
    for shared in &key.shared {
        shared.reserve(amount).await?;
        held.count += 1;
    }
    held.count = 0;
    active.reserve(amount, longest, request.has_other_price);
    Ok(())
}

/// Reservations to undo unless all of them succeed.
struct HeldReservations<'a> {
    key: &'a Key,
    amount: Amount,
    count: usize,
}

impl Drop for HeldReservations<'_> {
    fn drop(&mut self) {
        let shared = self.key.shared.iter().map(|budget| &**budget);
        let all = std::iter::once(&self.key.budget).chain(shared);
        for budget in all.take(self.count) {
            budget.give_back(self.amount);
        }
    }
}
