//! `carob serve`: demo resources, and a folder's files.

mod demo;
#[cfg(unix)]
mod files;
#[cfg(unix)]
mod folder;
mod live;
#[cfg(unix)]
mod store;
#[cfg(unix)]
mod upload;

use std::path::Path;
use std::time::Duration;

use carob::server::ServerBuilder;
use carob::{AmplificationLimit, Config, Server, ShutdownOutcome};

use crate::args::{self, ListenArgs, ServeArgs};
use crate::failure::{Failure, Kind, Outcome};
use crate::limits;
use crate::monitor::Monitor;
use crate::output;
use crate::printer;

use super::operator;
use super::stop::{self, Stop};
#[cfg(any(feature = "dtls", feature = "tls"))]
use super::tls;

/// Time for which a stopping server waits for requests in flight.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// The largest body that blocks of 1024 bytes can carry (RFC 7959 2.2), in bytes.
#[cfg(unix)]
const LARGEST_BODY: usize = 1 << 30;

/// Serves until interrupted.
pub(crate) async fn run(args: ServeArgs) -> Result<Outcome, Failure> {
    let ServeArgs {
        bind,
        sockets,
        join,
        listen,
        dir,
        writable,
        hidden,
        choice,
        transmission,
        count_option,
        aggregate,
        amplification_limit,
        no_q_block,
        operator,
        limits,
        json,
        watch,
    } = args;
    if limits.limits {
        printer::text(&limits::list(json, limits.markdown));
        return Ok(Outcome::Done);
    }
    stop::survive_file_size_limit()?;
    let operator = operator::open(operator).await?;
    let with_controller = args::timed(choice.cc.as_deref())?;
    let with_controller = super::adjusted(with_controller, &transmission);
    let with_controller = super::counted(with_controller, count_option);
    let with_controller = (aggregate.into_iter()).fold(with_controller, Config::aggregate);
    let mut limit = AmplificationLimit::default();
    for &(prefix, on) in &amplification_limit {
        limit.set(prefix, on);
    }
    let with_controller =
        amplification_limit
            .into_iter()
            .fold(with_controller, |settings, (prefix, on)| {
                if on {
                    settings.limit_amplification(prefix)
                } else {
                    settings.exempt_from_amplification_limit(prefix)
                }
            });
    let mut settings = Monitor::open(&watch)?.of_server(with_controller);
    settings = settings.engine(|config| config.q_block.accept &= !no_q_block);
    let server = Server::builder().bind(bind).sockets(sockets);
    let mut builder = live::resources(demo::resources(server));
    builder = join.into_iter().fold(builder, ServerBuilder::join);
    builder = operator.in_server(taking_connections(builder, &listen)?);
    let (of_files, of_library) = limits::of_files(limits.limit);
    if let Some(folder) = dir {
        let options = Files {
            writable,
            hidden,
            limits: of_files,
        };
        (builder, settings) = with_folder(builder, settings, &folder, options)?;
    }
    let settings = with_limits(settings, of_library)?;
    let server = builder.config(settings).start().await.map_err(|error| {
        let in_use = matches!(&error, carob::OpenError::Bind { source, .. }
            if source.kind() == std::io::ErrorKind::AddrInUse);
        let failure = Failure::from(error);
        if in_use {
            failure.hint("another program has this port; choose another with --bind [::]:PORT")
        } else {
            failure
        }
    })?;
    // A reader of that line may send requests at once.
    let mut stop = Stop::listen_as_server()?;
    let uri = |&(scheme, address)| args::authority(scheme, address);
    let uris: Vec<String> = server.addresses().iter().map(uri).collect();
    printer::listening(&uris, &limit, operator.metrics.as_deref(), json);
    // Programs wait for that line.
    output::finish()?;
    stop.asked_while(server.closed(), || reload(&server, &listen))
        .await?;
    tokio::select! {
        finish = server.shutdown(GRACE) => {
            if let ShutdownOutcome::Aborted { .. } = finish {
                printer::remark(&super::cut_off(&finish));
            }
            Ok(Outcome::Done)
        }
        () = stop.asked() => Ok(Outcome::Interrupted),
    }
}

/// The settings with the limits of the command line.
pub(super) fn with_limits(
    settings: Config,
    limits: Vec<(String, usize)>,
) -> Result<Config, Failure> {
    limits
        .into_iter()
        .try_fold(settings, |settings, (name, value)| {
            let set = settings.limit(&name, value);
            set.map_err(|error| Failure::new(Kind::Usage, error))
        })
}

/// The server with the connection transports of the command line.
pub(super) fn taking_connections(
    mut builder: ServerBuilder,
    args: &ListenArgs,
) -> Result<ServerBuilder, Failure> {
    if let Some(address) = args.tcp.clone() {
        builder = builder.bind_tcp(address);
    }
    #[cfg(feature = "websocket")]
    if let Some(address) = args.ws.clone() {
        builder = builder.bind_ws(address);
    }
    #[cfg(feature = "websocket")]
    {
        builder = (args.ws_origin.iter()).fold(builder, ServerBuilder::ws_origin);
    }
    secured(builder, args)
}

#[cfg(not(any(feature = "dtls", feature = "tls")))]
#[expect(clippy::unnecessary_wraps, reason = "as in a build with TLS or DTLS")]
fn secured(builder: ServerBuilder, _: &ListenArgs) -> Result<ServerBuilder, Failure> {
    Ok(builder)
}

/// The server with TLS and DTLS as the command line has them.
#[cfg(any(feature = "dtls", feature = "tls"))]
fn secured(mut builder: ServerBuilder, args: &ListenArgs) -> Result<ServerBuilder, Failure> {
    let credentials = tls::of_server(args)?;
    #[cfg(feature = "dtls")]
    if let (Some(address), Some(dtls)) = (&args.dtls, credentials.dtls) {
        builder = builder.bind_dtls(address.as_str(), dtls);
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = credentials.tls {
        if let Some(address) = &args.tls {
            builder = builder.bind_tls(address.as_str(), tls.clone());
        }
        #[cfg(feature = "websocket")]
        if let Some(address) = &args.wss {
            builder = builder.bind_wss(address.as_str(), tls);
        }
    }
    Ok(builder)
}

/// Reads keys and certificates again, for new handshakes. An error leaves those in use.
pub(super) fn reload(server: &Server, args: &ListenArgs) {
    #[cfg(any(feature = "dtls", feature = "tls"))]
    if tls::has_credentials(args) {
        return match tls::of_server(args).and_then(|credentials| credentials.replace(server)) {
            Ok(()) => printer::remark("SIGHUP: keys and certificates are read again"),
            Err(failure) => printer::remark(&format!(
                "SIGHUP: keys and certificates stay as they are: {}",
                failure.message
            )),
        };
    }
    let _ = (server, args);
    printer::remark("SIGHUP ignored: there are no keys or certificates");
}

/// Config of served files.
#[cfg_attr(not(unix), allow(dead_code, reason = "files are served on Unix only"))]
struct Files {
    writable: bool,
    hidden: bool,
    limits: limits::FileLimits,
}

#[cfg(unix)]
fn with_folder(
    builder: ServerBuilder,
    settings: Config,
    folder: &Path,
    Files {
        writable,
        hidden,
        limits,
    }: Files,
) -> Result<(ServerBuilder, Config), Failure> {
    let store = store::Store::new(hidden, limits);
    let root = folder::Folder::open(folder, store)
        .map_err(|error| Failure::file("serve the folder", folder, &error))?;
    if writable && let Ok(removed @ 1..) = root.remove_leftovers() {
        let text = format!("removed {removed} uploads that an earlier run left incomplete");
        printer::remark(&text);
    }
    let resource = files::resource(&root, writable);
    // Uploads are written to disk as they come, so memory is not what limits them.
    let settings = settings.engine(|config| config.limits.upload_bytes = LARGEST_BODY);
    let builder = builder.resource(
        "/",
        resource
            .clone()
            .attribute("ct", "40")
            .attribute("title", "the folder served"),
    );
    Ok((builder.fallback(resource), settings))
}

#[cfg(not(unix))]
fn with_folder(
    _: ServerBuilder,
    _: Config,
    folder: &Path,
    _: Files,
) -> Result<(ServerBuilder, Config), Failure> {
    let text = format!(
        "cannot serve {}: --dir needs a Unix system",
        folder.display()
    );
    Err(Failure::new(Kind::Usage, text))
}
