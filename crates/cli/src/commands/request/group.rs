//! Requests to groups: every member's answer is shown as it comes (RFC 7252 8).

use std::io::IsTerminal as _;
use std::time::Duration;

use carob::client::{MULTICAST_WAIT, MulticastResponses, RequestBuilder};
use carob::{Reply, Uri};
use carob_proto::codec::Host;

use crate::args::{GroupArgs, RequestArgs};
use crate::failure::{Failure, Kind, Outcome};
use crate::monitor::Monitor;
use crate::printer::{self, Answer, Report, millis};

/// Returns true if a URI names a multicast address, or the broadcast address.
pub(in crate::commands) fn is_group(uri: &str) -> bool {
    match Uri::parse(uri).as_ref().map(Uri::host) {
        Ok(Host::Ipv4(address)) => address.is_multicast() || address.is_broadcast(),
        Ok(Host::Ipv6 { address, .. }) => address.is_multicast(),
        _ => false,
    }
}

/// Sends a multicast request. Returns the responses, and the time for which they are taken.
pub(in crate::commands) async fn multicast(
    request: RequestBuilder,
    args: &GroupArgs,
    deadline: Option<Duration>,
) -> Result<(MulticastResponses, Duration), Failure> {
    let lasts = args.gather.or(deadline).unwrap_or(MULTICAST_WAIT);
    Ok((request.multicast(lasts).await?, lasts))
}

/// The failure of a multicast request without a response.
pub(in crate::commands) fn nobody(uri: &str, lasts: Duration) -> Failure {
    let text = format!(
        "no member of the group of {uri} responded within {}",
        printer::time(lasts)
    );
    Failure::new(Kind::NoAnswer, text)
        .hint("members respond within 5 s by default; --interface selects the network")
}

/// Sends a multicast request and shows each response.
pub(super) async fn run(
    uri: &str,
    request: RequestBuilder,
    args: &RequestArgs,
    monitor: &Monitor,
) -> Result<Outcome, Failure> {
    if args.body.output.is_some() {
        let failure = Failure::new(
            Kind::Usage,
            "-o takes one body, and several members may respond",
        );
        return Err(failure.hint("--json tells them apart on stdout"));
    }
    let (mut gathered, lasts) = multicast(request, &args.group, args.network.deadline).await?;
    let (mut answered, mut failed) = (0_u32, None);
    while let Some(reply) = gathered.next().await {
        match reply {
            Ok(reply) => {
                answered += 1;
                show(uri, &reply, args, monitor);
            }
            Err(error) => {
                let failure = Failure::from(error);
                if args.show.json {
                    printer::failure_json(uri, &failure, None);
                } else {
                    printer::failure(&failure);
                }
                failed = Some(failure);
            }
        }
    }
    match failed {
        Some(failure) if answered == 0 => Err(failure),
        None if answered == 0 => Err(nobody(uri, lasts)),
        _ => {
            if !args.show.json && std::io::stdout().is_terminal() {
                let members = if answered == 1 { "member" } else { "members" };
                printer::remark(&format!("{answered} {members} answered"));
            }
            Ok(Outcome::Done)
        }
    }
}

fn show(uri: &str, reply: &Reply, args: &RequestArgs, monitor: &Monitor) {
    if args.show.json {
        let counters = monitor.counters();
        printer::json(&Report {
            uri,
            answer: Answer::new(&reply.response, reply.peer).with_payload(reply.bytes()),
            rtt_ms: millis(reply.after),
            attempts: counters.copies,
            retransmissions: counters.retransmissions,
            timing: None,
        });
        return;
    }
    printer::member(reply.peer, reply.after);
    if reply.bytes().is_empty() {
        printer::code(&reply.response);
    } else {
        printer::body(&reply.response, reply.bytes());
    }
}
