//! Outlines of marks as path data, so that one element holds thousands of them.

use super::svg::short;

/// The outline of a mark around a point, scaled.
pub(super) type Shape = fn((f64, f64), f64) -> String;

pub(super) fn disc((x, y): (f64, f64), size: f64) -> String {
    // Two arcs: a path can hold many discs where a circle element holds one.
    let r = 1.9 * size;
    let (r1, r2, back) = (short(r), short(2.0 * r), short(-2.0 * r));
    format!(
        "M{} {}a{r1} {r1} 0 1 0 {r2} 0a{r1} {r1} 0 1 0 {back} 0",
        short(x - r),
        short(y)
    )
}

pub(super) fn triangle((x, y): (f64, f64), size: f64) -> String {
    let (w, h) = (4.2 * size, 7.2 * size);
    format!(
        "M{} {}l{} {}h{}Z",
        short(x),
        short(y - 0.64 * h),
        short(w),
        short(h),
        short(-2.0 * w)
    )
}

pub(super) fn cross((x, y): (f64, f64), size: f64) -> String {
    let d = 6.4 * size;
    let (ahead, back) = (short(d), short(-d));
    format!(
        "M{} {}l{ahead} {ahead}m0 {back}l{back} {ahead}",
        short(x - d / 2.0),
        short(y - d / 2.0)
    )
}

pub(super) fn square((x, y): (f64, f64), size: f64) -> String {
    let d = 6.0 * size;
    let (ahead, back) = (short(d), short(-d));
    format!(
        "M{} {}h{ahead}v{ahead}h{back}Z",
        short(x - d / 2.0),
        short(y - d / 2.0)
    )
}

pub(super) fn plus((x, y): (f64, f64), size: f64) -> String {
    let d = 8.0 * size;
    let (ahead, half) = (short(d), short(-d / 2.0));
    format!(
        "M{} {}h{ahead}m{half} {half}v{ahead}",
        short(x - d / 2.0),
        short(y)
    )
}

/// A point as a line of no length, which a round cap makes a disc: a quarter of [`disc`]'s bytes.
pub(super) fn point((x, y): (f64, f64)) -> String {
    format!("M{} {}h0", short(x), short(y))
}
