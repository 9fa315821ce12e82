//! All cells at once, and what came of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use carob_emu::{Config, Emulator, Side};
use carob_sim::random::Stream;
use carob_sim::spec::LinkRecord;
use tokio::task::{JoinSet, LocalSet};

use crate::cells::{Cell, Transport, seed};
use crate::{tcp, udp};

/// A flow that got its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) completion: Duration,
    /// The handshake, before the request.
    pub(crate) setup: Option<Duration>,
    /// Segments the server sent again until the client had everything.
    pub(crate) retransmitted: Option<u32>,
    pub(crate) timeouts: Option<u16>,
}

/// A flow, by its place among all links.
#[derive(Debug)]
struct Flow {
    link: usize,
    client: u32,
    result: io::Result<Done>,
}

#[derive(Debug)]
struct Options {
    errors: Vec<&'static str>,
    runs: u32,
    only: Vec<String>,
    limit: Duration,
    csv: Option<String>,
    capture: Option<String>,
}

const USAGE: &str = "options: --error none,low,medium,high (default: none)
         --runs N          links of each cell, with four clients at most 20 (default: 20)
         --only WORD,...   cells and algorithms with one of these words in their name
         --limit SECONDS   flows not done by then have no time (default: 600)
         --csv FILE        one line a flow
         --pcap FILE       packets at both ends of all links";

fn options() -> Result<Options, String> {
    let mut options = Options {
        errors: vec!["none"],
        runs: 20,
        only: Vec::new(),
        limit: Duration::from_secs(600),
        csv: None,
        capture: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| USAGE.to_owned())?;
        let number = || {
            value
                .parse()
                .map_err(|_| format!("{name} {value}: a number"))
        };
        match name.as_str() {
            "--error" => {
                let known = |word: &str| {
                    ["none", "low", "medium", "high"]
                        .into_iter()
                        .find(|known| *known == word)
                        .ok_or_else(|| USAGE.to_owned())
                };
                options.errors = value.split(',').map(known).collect::<Result<_, _>>()?;
            }
            "--runs" => options.runs = number()?,
            "--only" => options.only = value.split(',').map(str::to_owned).collect(),
            "--limit" => options.limit = Duration::from_secs(number()?.into()),
            "--csv" => options.csv = Some(value),
            "--pcap" => options.capture = Some(value),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let report = carob_emu::check();
    if !report.can_run() {
        return Err(format!("this machine cannot emulate links:\n{report}").into());
    }
    let mut cells = Cell::all(&options.errors, options.runs);
    cells.retain(|cell| {
        let name = format!("{}-{}", cell.name(), cell.algorithm);
        options.only.is_empty() || options.only.iter().any(|word| name.contains(word))
    });
    // All links, each with its cell and its number there.
    let links: Vec<(&Cell, u32)> = cells
        .iter()
        .flat_map(|cell| (0..cell.links).map(move |number| (cell, number)))
        .collect();
    let configured = links.iter().map(|(cell, number)| cell.link(*number));
    let mut config = Config::thesis(configured.collect());
    config.capture = options.capture.map(Into::into);
    let began = Instant::now();
    let emulator = Emulator::start(&config)?;
    println!(
        "{} links in {:.1} s",
        links.len(),
        began.elapsed().as_secs_f64()
    );
    for setting in emulator
        .settings()
        .iter()
        .filter(|setting| !setting.holds())
    {
        println!("{setting}");
    }

    let began = Instant::now();
    let mut flows = flows(&emulator, &links, options.limit)?;
    flows.sort_by_key(|flow| (flow.link, flow.client));
    println!("all flows after {:.1} s", began.elapsed().as_secs_f64());
    let outcome = emulator.finish()?;
    println!("{}\n", outcome.lateness);
    print!("{}", table(&cells, &links, &flows));
    if let Some(path) = &options.csv {
        std::fs::write(path, csv(&links, &flows, &outcome.links))?;
    }
    Ok(())
}

/// Runs everything: the kernel's flows here, those over UDP in the namespaces.
fn flows(
    emulator: &Emulator,
    links: &[(&Cell, u32)],
    limit: Duration,
) -> Result<Vec<Flow>, Box<dyn std::error::Error>> {
    let of = |transport| {
        let all = links.iter().enumerate();
        all.filter(move |(_, (cell, _))| cell.transport == transport)
            .map(|(index, (cell, number))| (index, *cell, *number))
            .collect::<Vec<_>>()
    };
    let (over_tcp, over_udp) = (of(Transport::Tcp), of(Transport::Udp));
    let (ready, serving) = mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serve = || -> io::Result<()> {
        on_runtime(async {
            let mut servers = Vec::new();
            for (index, cell, _) in &over_udp {
                servers.push(udp::serve(emulator.link(*index), cell.algorithm).await?);
            }
            // If nobody waits for it any more, nobody will stop it either.
            let _ = ready.send(());
            let _ = stopped.await;
            for server in servers {
                server.shutdown(Duration::ZERO).await;
            }
            Ok(())
        })
    };
    let fetch = || {
        on_runtime(async {
            let flows = starts(&over_udp).map(|(index, cell, client, wait)| {
                let flow = udp::fetch(emulator.link(index), cell.algorithm, wait);
                (index, client, flow)
            });
            Ok(gather(emulator, limit, "UDP", flows).await)
        })
    };
    thread::scope(|scope| {
        let servers = scope.spawn(|| emulator.namespace(Side::Server).enter(serve));
        let mut flows = Vec::new();
        if serving.recv().is_ok() {
            let clients = scope.spawn(|| emulator.namespace(Side::Client).enter(fetch));
            flows = on_runtime(tcp_flows(emulator, &over_tcp, limit))?;
            flows.extend(
                clients
                    .join()
                    .map_err(|_| "the clients' thread ended")???,
            );
        }
        // They may have ended by themselves.
        let _ = stop.send(());
        servers
            .join()
            .map_err(|_| "the servers' thread ended")???;
        Ok(flows)
    })
}

fn on_runtime<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, work)
}

async fn tcp_flows(
    emulator: &Emulator,
    links: &[(usize, &Cell, u32)],
    limit: Duration,
) -> io::Result<Vec<Flow>> {
    let mut open = BTreeMap::new();
    for (index, cell, _) in links {
        let of_link = Rc::new(tcp::OpenConnections::default());
        let listener = emulator.link(*index).listen(tcp::PORT, cell.algorithm);
        let listener = listener.map_err(io::Error::other)?;
        tokio::task::spawn_local(tcp::serve(listener, Rc::clone(&of_link)));
        open.insert(*index, of_link);
    }
    let mut flows = Vec::new();
    for (index, cell, client, wait) in starts(links) {
        let link = emulator.link(index);
        let socket = link.client_tcp(cell.algorithm).map_err(io::Error::other)?;
        let server = SocketAddr::from((link.address(Side::Server), tcp::PORT));
        let of_link = Rc::clone(&open[&index]);
        flows.push((index, client, tcp::fetch(socket, server, wait, of_link)));
    }
    let flows = gather(emulator, limit, "TCP", flows).await;
    for of_link in open.values() {
        of_link.reset();
    }
    Ok(flows)
}

/// All clients of some links, each with the wait that the simulator's client of its seed has.
fn starts<'a>(
    links: &'a [(usize, &'a Cell, u32)],
) -> impl Iterator<Item = (usize, &'a Cell, u32, Duration)> {
    let longest = carob_cc::time::Duration::from_secs(1);
    links.iter().flat_map(move |(index, cell, number)| {
        (0..cell.clients).map(move |client| {
            let mut stream = Stream::indexed(seed(*number), "client/start", client);
            let wait = stream.uniform(carob_cc::time::Duration::ZERO, longest);
            (
                *index,
                *cell,
                client,
                Duration::from_micros(wait.as_micros()),
            )
        })
    })
}

/// Runs flows, each of a link and a client, together and none longer than `limit`.
async fn gather<F>(
    emulator: &Emulator,
    limit: Duration,
    what: &str,
    flows: impl IntoIterator<Item = (usize, u32, F)>,
) -> Vec<Flow>
where
    F: Future<Output = io::Result<Done>> + 'static,
{
    let mut running = JoinSet::new();
    for (link, client, flow) in flows {
        running.spawn_local(async move {
            let result = tokio::time::timeout(limit, flow).await;
            let result = result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            Flow {
                link,
                client,
                result,
            }
        });
    }
    let (began, total) = (Instant::now(), running.len());
    let mut done = Vec::new();
    let mut tick = tokio::time::interval(Duration::from_secs(10));
    loop {
        tokio::select! {
            flow = running.join_next() => match flow {
                Some(Ok(flow)) => done.push(flow),
                Some(Err(error)) => eprintln!("a flow ended: {error}"),
                None => return done,
            },
            _ = tick.tick() => {
                let late = emulator.lateness().map(|lateness| lateness.to_string());
                let late = late.unwrap_or_else(|error| error.to_string());
                let (now, done) = (began.elapsed().as_secs(), done.len());
                eprintln!("{now:4} s: {done} of {total} over {what}; {late}");
                if !emulator.is_running() {
                    return Vec::new();
                }
            }
        }
    }
}

/// Completion times by cell and algorithm: least, percentiles with linear interpolation, most.
fn table(cells: &[Cell], links: &[(&Cell, u32)], flows: &[Flow]) -> String {
    let mut text = String::from(
        "cell                      algorithm    done of     min     p25  median     p75     max   again\n",
    );
    for cell in cells {
        let of_cell = flows
            .iter()
            .filter(|flow| std::ptr::eq(links[flow.link].0, cell));
        let (mut total, mut times, mut again) = (0, Vec::new(), Vec::new());
        for flow in of_cell {
            total += 1;
            if let Ok(done) = &flow.result {
                times.push(done.completion.as_secs_f64());
                again.extend(done.retransmitted.map(f64::from));
            }
        }
        let (name, algorithm) = (cell.name(), cell.algorithm);
        let _ = write!(text, "{name:25} {algorithm:10} {:6} {total:3}", times.len());
        for fraction in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let _ = match percentile(&mut times, fraction) {
                Some(time) => write!(text, " {time:7.2}"),
                None => write!(text, "       -"),
            };
        }
        let _ = match percentile(&mut again, 0.5) {
            Some(again) => writeln!(text, " {again:7.0}"),
            None => writeln!(text, "       -"),
        };
    }
    text
}

fn percentile(values: &mut [f64], fraction: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = fraction * values.len().checked_sub(1)? as f64;
    let (below, part) = (place as usize, place.fract());
    let above = *values.get(below + 1).unwrap_or(&values[below]);
    Some(values[below] + part * (above - values[below]))
}

/// One line a flow; what the link did is all its flows' together, up to the end of the run.
fn csv(links: &[(&Cell, u32)], flows: &[Flow], records: &[LinkRecord]) -> String {
    let mut text = String::from(
        "cell,algorithm,link,flow,fct_s,setup_s,retrans_segments,timeouts,link_down_offered,\
         link_down_full,link_down_lost,link_up_offered,link_up_full,link_up_lost\n",
    );
    for flow in flows {
        let (cell, number) = links[flow.link];
        let seconds = |time: Duration| format!("{:.6}", time.as_secs_f64());
        let done = flow.result.as_ref().ok();
        let or_nothing = |value: Option<String>| value.unwrap_or_default();
        let LinkRecord { down, up, .. } = records[flow.link];
        let _ = writeln!(
            text,
            "{},{},{number},{},{},{},{},{},{},{},{},{},{},{}",
            cell.name(),
            cell.algorithm,
            flow.client,
            or_nothing(done.map(|done| seconds(done.completion))),
            or_nothing(done.and_then(|done| done.setup.map(seconds))),
            or_nothing(done.and_then(|done| done.retransmitted.map(|n| n.to_string()))),
            or_nothing(done.and_then(|done| done.timeouts.map(|n| n.to_string()))),
            down.offered,
            down.dropped_full,
            down.lost,
            up.offered,
            up.dropped_full,
            up.lost,
        );
    }
    text
}
