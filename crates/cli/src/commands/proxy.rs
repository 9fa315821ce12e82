//! `carob proxy`: a forward- and reverse-proxy.

use carob::proxy::{ProxyBuilder, ProxyLimits};
use carob::{CacheLimits, Config, PeerConfig, Proxy, Server, ShutdownOutcome};

#[cfg(feature = "dtls")]
use crate::args::PskArgs;
#[cfg(any(feature = "dtls", feature = "tls"))]
use crate::args::TlsArgs;
use crate::args::{self, ProxyArgs};
use crate::failure::{Failure, Kind, Outcome};
use crate::monitor::Monitor;
use crate::output;
use crate::printer;

use super::operator::{self, Operator};
use super::serve::{GRACE, reload, taking_connections, with_limits};
use super::stop::{self, Stop};
#[cfg(any(feature = "dtls", feature = "tls"))]
use super::tls;

/// Passes on until interrupted.
pub(crate) async fn run(args: ProxyArgs) -> Result<Outcome, Failure> {
    if args.route.is_empty() && args.allow.is_empty() {
        let failure = Failure::new(Kind::Usage, "no request would be forwarded");
        return Err(failure
            .hint("set --route PATH=URI, or --allow PATTERN for the hosts of a forward-proxy"));
    }
    stop::survive_file_size_limit()?;
    let json = args.json;
    let operator = operator::open(args.operator.clone()).await?;
    let listen = args.listen.clone();
    let builder = described(args, &operator)?;
    let proxy = Box::pin(builder.start()).await?;
    // A reader of that line may send requests at once.
    let mut stop = Stop::listen_as_server()?;
    let uri = |&(scheme, address)| args::authority(scheme, address);
    let uris: Vec<String> = proxy.server().addresses().iter().map(uri).collect();
    let limit = carob::AmplificationLimit::default();
    printer::listening(&uris, &limit, operator.metrics.as_deref(), json);
    // Programs wait for that line.
    output::finish()?;
    stop.asked_while(proxy.closed(), || reload(proxy.server(), &listen))
        .await?;
    tokio::select! {
        finish = proxy.shutdown(GRACE) => {
            if let ShutdownOutcome::Aborted { .. } = finish {
                printer::remark(&super::cut_off(&finish));
            }
            Ok(Outcome::Done)
        }
        () = stop.asked() => Ok(Outcome::Interrupted),
    }
}

/// The proxy as the options describe it.
fn described(args: ProxyArgs, operator: &Operator) -> Result<ProxyBuilder, Failure> {
    let ProxyArgs {
        route,
        allow,
        host,
        id,
        hop_limit,
        bind,
        listen,
        cc,
        aggregate,
        block_size,
        origin,
        limit,
        operator: _,
        json: _,
        watch,
    } = args;
    let monitor = Monitor::open(&watch)?;
    let mut settings = args::timed(cc.as_deref())?;
    settings = aggregate.into_iter().fold(settings, Config::aggregate);
    if let Some(size) = block_size {
        settings = settings.block_size(size);
    }
    let mut origins = args::timed(None)?;
    #[cfg(any(feature = "dtls", feature = "tls"))]
    {
        origins = origins.tls(tls::of_client(&TlsArgs {
            ca: origin.origin_ca,
            cert: origin.origin_cert,
            key: origin.origin_key,
        })?);
    }
    #[cfg(feature = "dtls")]
    {
        origins = origins.dtls(tls::dtls_of_client(&PskArgs {
            psk_identity: origin.origin_psk_identity,
            psk_file: origin.origin_psk_file,
        })?);
    }
    for (address, name) in &origin.origin_cc {
        let controller = args::controller(name)?;
        origins = match address {
            Some(address) => origins.peer(*address, PeerConfig::new().controller(controller)),
            None => origins.controller(controller),
        };
    }
    if let Some(size) = origin.origin_block_size {
        origins = origins
            .block_size(size)
            .engine(|config| config.negotiate_early = true);
    }
    let mut limits = ProxyLimits::default();
    limits.requests = limit.requests;
    limits.requests_of_origin = limit.requests_of_origin;
    limits.requests_of_client = limit.requests_of_client;
    limits.body_bytes = limit.body_bytes;
    limits.observations = limit.observations;
    limits.observations_of_client = limit.observations_of_client;
    limits.patience = origin.patience;
    limits.cache = CacheLimits {
        entries: limit.cache_entries,
        bytes: limit.cache_bytes,
    };
    let server = operator.in_server(taking_connections(Server::builder().bind(bind), &listen)?);
    let mut builder = Proxy::builder()
        .server(server)
        .config(with_limits(monitor.of_server(settings), limit.limit)?)
        .origin_config(monitor.of_server(origins))
        .identifier(&id)
        .hop_limit(hop_limit)
        .limits(limits);
    for (path, uri) in &route {
        builder = builder.route(path, uri)?;
    }
    for pattern in allow {
        builder = builder.allow(pattern);
    }
    for name in host {
        builder = builder.host(name);
    }
    if limit.share_secure {
        builder = builder.share_secure();
    }
    Ok(builder)
}
