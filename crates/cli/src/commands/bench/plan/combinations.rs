//! Options that do not go together.

use carob_bench::Mode;

use super::wrong;
use crate::args::bench::BenchArgs;
use crate::failure::Failure;

/// Refuses options that another mode needs, each with what to do instead.
pub(super) fn check(args: &BenchArgs) -> Result<(), Failure> {
    let mode = args.mode;
    let body = args.payload.is_some() || args.bytes.is_some();
    let several = matches!(mode, Mode::Get | Mode::Post);
    let refusals = [
        (
            body && !matches!(mode, Mode::Post | Mode::Upload),
            "--payload and --bytes are for what is sent",
            "add --mode post or --mode upload",
        ),
        (
            mode == Mode::Upload && !body,
            "--mode upload needs a body",
            "give its length with --bytes N",
        ),
        (
            args.method.is_some() && mode != Mode::Upload,
            "--method is for uploads",
            "add --mode upload, or use --mode post",
        ),
        (
            args.rate.is_some() && !several,
            "--rate starts single requests",
            "use it with --mode get or post; bodies go by --ports",
        ),
        (
            args.outstanding.is_some() && !several,
            "--outstanding counts single requests",
            "say how many bodies with --ports",
        ),
        (
            args.nstart.is_some() && mode != Mode::Block,
            "--nstart is for blocks of a body in flight",
            "add --mode block; for requests, --outstanding over --ports sets it",
        ),
        (
            args.block_size.is_some() && !mode.moves_bodies(),
            "--block-size is for bodies",
            "add --mode block or --mode upload",
        ),
        (
            args.server_pid.is_some() && cfg!(not(target_os = "linux")),
            "--server-pid needs Linux",
            "leave it away",
        ),
    ];
    for (refused, what, remedy) in refusals {
        if refused {
            return Err(wrong(what, remedy));
        }
    }
    Ok(())
}
