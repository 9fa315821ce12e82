//! A gateway that polls 20 devices concurrently, downloads a device's log block-wise and observes another device. Each
//! kind of link has its own controller.
//!
//! `cargo run -p carob --example gateway` also starts the devices, on loopback ports. The last device never responds.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use carob::client::Update;
use carob::server::{Notifier, Request, Resource, fixed};
use carob::{Client, Code, Config, Error, PeerConfig, Server};
use tokio::task::JoinSet;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Link of a device.
#[derive(Clone, Copy)]
pub(crate) enum Link {
    NbIot,
    Mesh,
    Satellite,
}

impl Link {
    /// The controller and the parameters of peers on this link.
    fn settings(self) -> Result<PeerConfig, Failure> {
        Ok(match self {
            Self::NbIot => PeerConfig::new().controller_named("linux-rto-kernel")?,
            Self::Mesh => PeerConfig::new().controller_named("cocoa-plus")?,
            Self::Satellite => PeerConfig::new()
                .controller_named("carob")?
                .adjust_parameters(|parameters| {
                    parameters.ack_timeout = Duration::from_secs(4).into();
                }),
        })
    }
}

/// A client with the controller of each device.
pub(crate) fn client(devices: &[(SocketAddr, Link)]) -> Result<Client, Failure> {
    let mut config = Config::new();
    for (address, link) in devices {
        config = config.peer(*address, link.settings()?);
    }
    Ok(Client::builder().config(config).open()?)
}

/// Reads a device's temperature in degrees.
async fn reading(client: &Client, device: SocketAddr) -> Result<f64, Failure> {
    let request = client.get(format!("coap://{device}/reading"));
    let reply = request.timeout(Duration::from_secs(2)).await?.success()?;
    let text = reply.text().unwrap_or_default();
    text.parse()
        .map_err(|_| format!("{text:?} is no number").into())
}

/// Polls all devices at once; returns the readings and the devices that did not respond in time.
pub(crate) async fn poll(
    client: &Client,
    devices: &[(SocketAddr, Link)],
) -> Result<(Vec<f64>, Vec<SocketAddr>), Failure> {
    let mut polls = JoinSet::new();
    for &(device, _) in devices {
        let client = client.clone();
        polls.spawn(async move { (device, reading(&client, device).await) });
    }
    let (mut readings, mut silent) = (Vec::new(), Vec::new());
    while let Some(poll) = polls.join_next().await {
        match poll? {
            (_, Ok(degrees)) => readings.push(degrees),
            (device, Err(error)) => match error.downcast_ref::<Error>() {
                Some(error) if error.is_timeout() => silent.push(device),
                Some(error) => println!("{device}: {}", error.report()),
                None => println!("{device}: {error}"),
            },
        }
    }
    Ok((readings, silent))
}

/// Downloads a device's log block by block; returns its length in bytes.
pub(crate) async fn log_bytes(client: &Client, device: SocketAddr) -> Result<usize, Error> {
    let log = client.get(format!("coap://{device}/log"));
    let mut log = log.send_streaming().await?.success().await?;
    let mut bytes = 0;
    while let Some(chunk) = log.body.chunk().await? {
        bytes += chunk.len();
    }
    Ok(bytes)
}

/// Waits until the door of a device was opened `times` times.
pub(crate) async fn watch_door(
    client: &Client,
    device: SocketAddr,
    times: u32,
) -> Result<(), Failure> {
    let door = client.get(format!("coap://{device}/door"));
    let mut door = door.timeout(Duration::from_secs(5)).observe().await?;
    while let Some(update) = door.next().await {
        match update? {
            Update::State(reply) if reply.text() == Some(&times.to_string()) => break,
            Update::Stale(_) => println!("{device}: no notification within Max-Age"),
            Update::Ended(reply) => return Err(format!("ended with {}", reply.code).into()),
            _ => {}
        }
    }
    door.stop().await?;
    Ok(())
}

/// Starts a device with a reading, a log of 200 kB, and a door counter that POST increments.
pub(crate) async fn device(number: u32) -> Result<Server, Failure> {
    let (opened, changes) = (Arc::new(AtomicU32::new(0)), Notifier::confirmable());
    let (times, notifier) = (opened.clone(), changes.clone());
    let door = Resource::new()
        .get(move |_: Request| ready(opened.load(Ordering::Relaxed).to_string()))
        .post(move |_: Request| {
            times.fetch_add(1, Ordering::Relaxed);
            notifier.changed();
            ready(Code::CHANGED)
        })
        .observable(&changes);
    let server = Server::builder()
        .bind("127.0.0.1:0")
        .resource("/reading", fixed(format!("{number}.5")))
        .resource("/log", fixed(vec![b'x'; 200_000]))
        .resource("/door", door);
    Ok(server.start().await?)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (mut servers, mut devices) = (Vec::new(), Vec::new());
    for number in 1..=20 {
        let server = device(number).await?;
        let link = [Link::NbIot, Link::Mesh, Link::Satellite][number as usize % 3];
        devices.push((server.local_address(), link));
        servers.push(server);
    }
    // A socket that never responds.
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0")?;
    devices.push((nobody.local_addr()?, Link::NbIot));

    let client = client(&devices)?;
    let (readings, silent) = poll(&client, &devices).await?;
    let mean = readings.iter().sum::<f64>() / readings.len().max(1) as f64;
    println!(
        "{} readings, mean {mean}; no response: {}",
        readings.len(),
        silent.len()
    );

    let (first, second) = (devices[0].0, devices[1].0);
    println!("log of {} bytes", log_bytes(&client, second).await?);

    let watching = tokio::spawn({
        let client = client.clone();
        async move { watch_door(&client, first, 1).await }
    });
    client
        .post(format!("coap://{first}/door"))
        .await?
        .success()?;
    watching.await??;
    println!("the door was opened");
    client.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
