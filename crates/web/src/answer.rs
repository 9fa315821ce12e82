//! The recommendation of `carob lab compare`, by the same code.

use std::sync::atomic::{AtomicUsize, Ordering};

use carob_lab::compare::Progress;
use serde_json::{Value, json};

use crate::error::CallError;
use crate::source::LinkForm;

/// Answers the question of a link and its traffic.
pub(crate) fn answer(
    form: &LinkForm,
    progress: &(dyn Fn(u32, u32) + Sync),
) -> Result<Value, CallError> {
    let question = form.question()?;
    let (done, planned) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let answer = question.answer(&|step| {
        match step {
            Progress::Planned(runs) => planned.fetch_add(runs, Ordering::Relaxed),
            Progress::Made => done.fetch_add(1, Ordering::Relaxed),
        };
        let [done, planned] = [&done, &planned].map(|count| count.load(Ordering::Relaxed) as u32);
        progress(done, planned);
    })?;
    let is_blockwise = answer.traffic.is_blockwise();
    let ranked = answer.ranked.iter().map(|one| {
        json!({
            "controller": one.configuration.controller,
            "settings": one.configuration.settings(is_blockwise),
            "measured": one.measured, "cost": one.cost,
            "options": one.configuration.options(is_blockwise),
        })
    });
    Ok(json!({
        "words": answer.words(),
        "link": answer.link.about(), "traffic": answer.traffic.about(),
        "ranked": ranked.collect::<Vec<_>>(),
        "recommended": answer.recommended,
        "seeds": answer.seeds, "runs": answer.runs, "settled": answer.is_settled,
    }))
}
