//! Saturation throughput of unslotted CSMA-CA by fixed points.
//!
//! Nodes are decoupled as in Bianchi (IEEE JSAC 18(3), 2000): each finds the channel busy with the same probability at
//! every assessment. The backoff chain is the one of unslotted IEEE 802.15.4 in Di Marco, Park, Fischione and Johansson
//! (IEEE Trans. Vehicular Technology 61(7), 2012). The channel is a renewal process with exponential backoffs and a
//! vulnerable time of one turnaround, as in Srivastava and Kumar (arXiv:1201.3001, 2012). Times are in microseconds.

/// aUnitBackoffPeriod, assessment, turnaround, acknowledgement, macAckWaitDuration.
const UNIT: f64 = 320.0;
const ASSESSMENT: f64 = 128.0;
const TURNAROUND: f64 = 192.0;
const ACK: f64 = 352.0;
const ACK_WAIT: f64 = 864.0;
/// Long and short interframe spacing.
const LIFS: f64 = 640.0;
/// macMinBE, macMaxBE, macMaxCSMABackoffs and macMaxFrameRetries.
const BE_MIN: i32 = 3;
const BE_MAX: i32 = 5;
const BACKOFFS_MAX: i32 = 4;
const RETRIES_MAX: i32 = 3;

/// Air time of a frame.
fn air(bytes: u16) -> f64 {
    f64::from(6 + bytes) * 32.0
}

/// Mean backoff of stage `k` with its assessment.
fn stage(k: i32) -> f64 {
    let be = (BE_MIN + k).min(BE_MAX);
    (2_f64.powi(be) - 1.0) / 2.0 * UNIT + ASSESSMENT
}

/// Distinct frames per second received from `nodes` saturated nodes in range of each other.
pub(crate) fn star(nodes: u32, bytes: u16) -> f64 {
    let others = f64::from(nodes) - 1.0;
    let frame = air(bytes);
    let mut busy = 0.5_f64;
    let mut delivered = 0.0;
    for _ in 0..10_000 {
        let stages = 0..=BACKOFFS_MAX;
        let assessments: f64 = stages.clone().map(|k| busy.powi(k)).sum();
        let time: f64 = stages.map(|k| busy.powi(k) * stage(k)).sum();
        // Assessments per microsecond of backoff of a node.
        let rate = assessments / time;
        let rest = rate * others;
        // Another assessment during the first node's turnaround causes a collision. One in the gap before the
        // acknowledgement destroys the acknowledgement and occupies the channel again.
        let alone = (-rest * TURNAROUND).exp();
        let undisturbed = (-rest * TURNAROUND).exp();
        let acknowledged = alone * undisturbed;
        let occupied = frame
            + acknowledged * ACK
            + alone * (1.0 - undisturbed) * (TURNAROUND + frame)
            + (1.0 - alone) * TURNAROUND / 2.0;
        let gap = alone * undisturbed * TURNAROUND;
        // The channel as seen in a node's backoff: idle until any node's assessment, then still idle for a turnaround, then
        // occupied, in cycles started by other nodes.
        let idle = 1.0 / (rate * (others + 1.0));
        let begun = others / (others + 1.0);
        let seen = begun * occupied / (idle + begun * (TURNAROUND + gap + occupied));
        let unacknowledged = 1.0 - acknowledged;
        delivered = throughput(nodes, seen, unacknowledged, frame);
        if (seen - busy).abs() < 1e-12 {
            break;
        }
        busy += 0.2 * (seen - busy);
    }
    delivered
}

/// Frames per second received, given the probabilities that an assessment finds the channel busy and that a
/// transmission is not acknowledged.
fn throughput(nodes: u32, busy: f64, unacknowledged: f64, frame: f64) -> f64 {
    let stages = 0..=BACKOFFS_MAX;
    let access = 1.0 - busy.powi(BACKOFFS_MAX + 1);
    let backoff: f64 = stages.map(|k| busy.powi(k) * stage(k)).sum();
    // A frame is retried while channel access succeeds and the acknowledgement is missing.
    let again = access * unacknowledged;
    let tries: f64 = (0..=RETRIES_MAX).map(|n| again.powi(n)).sum();
    let success = tries * access * (1.0 - unacknowledged);
    let failed = tries * access * unacknowledged;
    let sent = TURNAROUND + frame;
    let time =
        tries * backoff + success * (sent + TURNAROUND + ACK + LIFS) + failed * (sent + ACK_WAIT);
    f64::from(nodes) * success / time * 1e6
}

/// Distinct frames per second received from `nodes` saturated nodes that are hidden from each other.
///
/// Each node is a renewal process of pauses and transmissions (Srivastava and Kumar). A transmission succeeds if all
/// other nodes pause from its start until its acknowledgement starts.
pub(crate) fn hidden(nodes: u32, bytes: u16) -> f64 {
    let frame = air(bytes);
    let slots = 2_i32.pow(BE_MIN as u32);
    let mut success = 0.5;
    for _ in 0..1_000 {
        // Pauses without and with an acknowledgement. The first backoff is always of stage 0, since only acknowledgements
        // are sensed.
        let after = [
            (1.0 - success, ACK_WAIT),
            (success, TURNAROUND + ACK + LIFS),
        ];
        let mut pause = 0.0;
        let mut left = 0.0;
        for (share, fixed) in after {
            for slot in 0..slots {
                let all = fixed + f64::from(slot) * UNIT + ASSESSMENT + TURNAROUND;
                let weight = share / f64::from(slots);
                pause += weight * all;
                left += weight * (all - frame - TURNAROUND).max(0.0);
            }
        }
        let one = left / (pause + frame);
        let next = one.powi(nodes as i32 - 1);
        if (next - success).abs() < 1e-12 {
            break;
        }
        success += 0.2 * (next - success);
    }
    throughput(nodes, 0.0, 1.0 - success, frame)
}
