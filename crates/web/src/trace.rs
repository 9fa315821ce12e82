//! A trace that a user opens: its means over equal steps, for the drawing of a link.

use carob_lab::link_trace;
use serde_json::{Value, json};

use crate::error::CallError;

/// The most steps of a drawing.
const STEPS_MAX: usize = 64;

/// Attaches a trace under the name of its file. Returns its means over `steps` steps: its length in seconds, and lists
/// of kbit/s, ms and percent. A list is empty if the trace lacks that column.
pub(crate) fn attach(name: &str, text: &str, count: usize) -> Result<Value, CallError> {
    let source = link_trace::attach(name, text).map_err(|why| {
        CallError::new(
            format_args!("{name}: {why}"),
            "choose a CSV with time_ms and rate_kbit_s, delay_ms or loss_percent, or Mahimahi's lines of milliseconds",
        )
    })?;
    let trace = &source.trace;
    let steps = trace.steps(count.clamp(1, STEPS_MAX));
    let rate: Vec<f64> = steps
        .iter()
        .filter_map(|row| Some(row.rate_bps? as f64 / 1e3))
        .collect();
    let delay: Vec<f64> = (steps.iter())
        .filter_map(|row| Some(row.delay?.as_micros() as f64 / 1e3))
        .collect();
    let loss: Vec<f64> = (steps.iter())
        .filter_map(|row| Some((row.loss?.as_f64() * 1e6).round() / 1e4))
        .collect();
    Ok(json!({
        "seconds": trace.length().as_micros() as f64 / 1e6,
        "hash": format!("{:016x}", source.hash), "rows": trace.rows(),
        "rate": rate, "delay": delay, "loss": loss,
    }))
}
