//! Headless Chromium over a pipe of its DevTools protocol: messages of JSON that end with a zero byte.
//!
//! This client drives a page in real time. `frames.rs` of the command's tests, which the book's check includes, opens pages that
//! need no input, all at once and in virtual time. Only the arguments of Chromium are the same.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

/// Time for one call. A page may be slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Pause between two looks at a condition.
const POLL: Duration = Duration::from_millis(50);

/// A browser with one page.
pub(super) struct Browser {
    process: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    next: u64,
    /// Events so far.
    pub(super) events: Vec<Value>,
}

impl Browser {
    /// Starts Chromium; `data` is the folder of its profile.
    pub(super) fn start(data: &Path) -> Result<Self> {
        // The shell makes its standard streams the pipe, which Chromium expects as descriptors 3 and 4.
        let mut process = Command::new("sh")
            .args([
                "-c",
                "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null",
                "sh",
            ])
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-quic", "--no-first-run", "--disable-sync"])
            .args(["--disable-background-networking"])
            .args(["--disable-component-update"])
            .arg(format!("--user-data-dir={}", data.display()))
            .args(["--remote-debugging-pipe", "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start chromium")?;
        let input = process.stdin.take().context("the input is a pipe")?;
        let output = process.stdout.take().context("the output is a pipe")?;
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else {
                    break;
                };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            process,
            input,
            messages,
            session: None,
            next: 1,
            events: Vec::new(),
        };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attach)?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Performance"] {
            browser.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method and returns its result. Events that come before it are kept.
    pub(super) fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        let id = self.next;
        self.next += 1;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes)?;
        self.input.flush()?;
        loop {
            let mut message = self
                .receive(PATIENCE)
                .with_context(|| format!("{method} has no answer"))?;
            if message["id"] == id {
                if message["error"].is_object() {
                    bail!("{method}: {}", message["error"]);
                }
                return Ok(message["result"].take());
            }
            self.events.push(message);
        }
    }

    fn receive(&mut self, patience: Duration) -> Result<Value> {
        let received = self.messages.recv_timeout(patience);
        received.map_err(|error| anyhow!("chromium: {error}"))
    }

    /// Waits for an event, and keeps all until then.
    pub(super) fn wait_for_event(&mut self, method: &str) -> Result<()> {
        loop {
            let message = self.receive(PATIENCE)?;
            let is_it = message["method"] == method;
            self.events.push(message);
            if is_it {
                return Ok(());
            }
        }
    }

    /// The value of an expression, awaited.
    pub(super) fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let mut result = self.call("Runtime.evaluate", &parameters)?;
        if result["exceptionDetails"].is_object() {
            bail!("{expression}: {}", result["exceptionDetails"]);
        }
        Ok(result["result"]["value"].take())
    }

    /// Waits until an expression is true.
    pub(super) fn wait(&mut self, expression: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            // Between two pages there is no context to evaluate in.
            if self.evaluate(expression).is_ok_and(|value| value == true) {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        bail!("not true in {} s: {expression}", PATIENCE.as_secs())
    }

    /// Opens an address.
    pub(super) fn open(&mut self, address: &str) -> Result<()> {
        self.call("Page.navigate", &json!({ "url": address }))
            .map(drop)
    }

    /// Sets the size of the window and the colours that the reader prefers.
    pub(super) fn view(&mut self, width: u32, is_dark: bool) -> Result<()> {
        let metrics = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.call("Emulation.setDeviceMetricsOverride", &metrics)?;
        let scheme = if is_dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &media).map(drop)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.call("Browser.close", &json!({}));
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
