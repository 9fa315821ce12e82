//! Extended tokens with servers that do not implement them (RFC 8974 2.2.2).

use carob::Config;
use carob_proto::codec::Type;

use crate::installed::Peer;
use crate::interop::bench::Bench;
use crate::interop::clients::Implementation;
use crate::interop::library;
use crate::interop::path::Faults;

const LONG: u16 = 20;

/// A request with an extended token is rejected or dropped, and repeated with a short one, like all later ones.
pub(crate) fn long(bench: &Bench) {
    bench.interpose(Faults::default());
    let uri = bench.to().uri(bench.server.paths.hello);
    library::get_repeatedly(Config::new().token_length(LONG), &uri, 3);
    let seen = bench.path().to_server();
    let requests = seen.requests();
    let mut lengths: Vec<usize> = requests
        .values()
        .map(|copies| copies[0].token.len())
        .collect();
    lengths.sort_unstable();
    assert_eq!(
        lengths,
        [8, 8, 8, LONG.into()],
        "the peer accepts long tokens; the documentation says that it does not"
    );
    // RFC 7252 4.2 requires a Reset for unreadable messages; only libcoap sends it.
    let resets = usize::from(bench.server.whose == Implementation::Of(Peer::Libcoap));
    assert_eq!(bench.path().to_client().count(Type::Reset), resets);
}
