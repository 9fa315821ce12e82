//! Traces of a link: files named by `link.down.trace` and `link.up.trace`, or their texts in these keys.

use std::collections::BTreeMap;
use std::path::Path;

use carob_sim::hash::fnv1a;
use carob_sim::link::{Replay, TraceEnd, TraceStart};

use super::cell::Cell;
use super::error::{Place, ScenarioError};
use super::impossible;
use crate::link_trace::{Source, read_value};

keys! {
    /// Keys of traces.
    pub(super) KEYS;

    Replay {
        end: "link.trace_end", Word { "loop" => TraceEnd::Loop, "cut" => TraceEnd::Cut }, "loop",
            "What follows the end of `link.down.trace` and `link.up.trace`: the trace again, or the direction's own rate, delay and loss.";
        start: "link.trace_start", Word { "first" => TraceStart::First, "drawn" => TraceStart::Drawn }, "first",
            "Where a trace begins: at its first row, or at a time that the seed draws, the same for traces of equal length.";
        _: "link.down.trace", Text, -,
            "File with a series of rate, delay and loss towards the constrained side, relative to the scenario: CSV or Mahimahi's format (docs/traces.md).";
        _: "link.up.trace", Text, -,
            "File with a series of rate, delay and loss from the constrained side, relative to the scenario: CSV or Mahimahi's format (docs/traces.md).";
    }
}

/// Traces of a scenario by the folder of their path and their value, each read once.
#[derive(Debug, Default)]
pub(super) struct TraceFiles(BTreeMap<(String, String), Source>);

impl TraceFiles {
    /// Reads the traces of a cell. Their contents are part of its hash. A path is relative to the
    /// scenario file, or on the command line to the working directory.
    pub(super) fn load(&mut self, cell: &mut Cell) -> Result<(), ScenarioError> {
        for direction in ["down", "up"] {
            let path = format!("link.{direction}.trace");
            if !cell.has(&path) {
                continue;
            }
            let place = cell.place(&path);
            let folder = match place {
                Place::File { name, .. } => Path::new(name).parent().unwrap_or(Path::new("")),
                _ => Path::new(""),
            };
            let value = cell.text(&path)?;
            let id = (folder.display().to_string(), value.to_owned());
            let loaded = if let Some(loaded) = self.0.get(&id) {
                loaded.clone()
            } else {
                let source = read_value(value, folder)
                    .map_err(|why| impossible(place, format!("{path}: {why}")))?;
                self.0.insert(id, source.clone());
                source
            };
            let both = format!("{:016x}:{path}:{:016x}", cell.hash, loaded.hash);
            cell.hash = fnv1a(both.as_bytes());
            cell.traces.insert(direction, loaded.trace);
        }
        Ok(())
    }
}

/// The replay of a direction, if it has a trace.
pub(super) fn replay(cell: &Cell, direction: &str) -> Result<Option<Replay>, ScenarioError> {
    let Some(trace) = cell.traces.get(direction) else {
        return Ok(None);
    };
    let replay = Replay {
        trace: trace.clone(),
        end: TraceEnd::Loop,
        start: TraceStart::First,
    };
    cell.fields_over(replay).map(Some)
}

#[cfg(test)]
mod tests {
    use carob_sim::link::LinkSpec;

    use super::super::Scenario;
    use super::*;

    /// A folder with the traces of a test.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = std::env::temp_dir().join(format!("carob-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("a folder");
            for (file, text) in files {
                std::fs::write(folder.join(file), text).expect("a file");
            }
            Self(folder)
        }

        fn read(&self, link: &str) -> Result<Scenario, String> {
            let text = format!(
                "about = \"A.\"\nstudy = \"s\"\nfamily = \"f\"\ncell = \"c\"\n\
                 [run]\nalgorithms = [\"default\"]\n\
                 [workload]\nkind = \"exchanges\"\nrequests = 3\nresponse = \"8 B\"\n{link}"
            );
            let name = self.0.join("s.toml");
            Scenario::read(&name.display().to_string(), &text, &[]).map_err(|e| e.to_string())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_direction_replays_the_file_beside_the_scenario() {
        let files = [
            (
                "up.csv",
                "time_ms,rate_kbit_s,delay_ms,loss_percent\n0,20,100,0\n1000,40,50,10\n",
            ),
            ("down", "1\n2\n30\n"),
        ];
        let folder = Folder::new("traces", &files);
        let link = "[link]\ntrace_start = \"drawn\"\n[link.down]\ntrace = \"down\"\n\
                    [link.up]\ntrace = \"up.csv\"\n";
        let scenario = folder.read(link).expect("a scenario");
        let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
        let LinkSpec { down, up } = crate::testing::link(spec).link;
        // Without a configured rate, a direction has the mean of its trace.
        assert_eq!(up.rate_bps, 30_000);
        let replay = down.replay.expect("a trace");
        assert_eq!((replay.trace.rows(), replay.end), (3, TraceEnd::Loop));
        assert_eq!(replay.start, TraceStart::Drawn);
        let before = scenario.hash();
        std::fs::write(folder.0.join("down"), "1\n2\n31\n").expect("a file");
        assert_ne!(folder.read(link).expect("a scenario").hash(), before);
    }

    #[test]
    fn a_text_in_the_place_of_a_path_is_the_trace() {
        let folder = Folder::new("written-traces", &[]);
        let link = "[link]\n[link.down]\nrate = \"9 kbit/s\"\n[link.up]\ntrace = \"\"\"\n\
                    time_ms,rate_kbit_s\n0,20\n500,40\n\"\"\"\n";
        let scenario = folder.read(link).expect("a scenario");
        let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
        let up = crate::testing::link(spec).link.up;
        assert_eq!(up.rate_bps, 30_000);
        assert_eq!(up.replay.expect("a trace").trace.rows(), 2);
        let error = folder
            .read(&link.replace("500,40", "500,x"))
            .expect_err("no trace");
        assert!(
            error.contains("link.up.trace: line 3: rate_kbit_s"),
            "{error}"
        );
    }

    #[test]
    fn an_error_names_file_and_line() {
        let folder = Folder::new("bad-traces", &[("bad.csv", "time_ms,delay_ms\n0,1\nx,2\n")]);
        let link = "[link.up]\nrate = \"1 kbit/s\"\n[link.down]\nrate = \"1 kbit/s\"\n";
        let error = folder
            .read(&format!("{link}trace = \"bad.csv\"\n"))
            .expect_err("no trace");
        assert!(
            error.contains("bad.csv:3: time_ms is not a number"),
            "{error}"
        );
        let error = folder
            .read(&format!("{link}trace = \"none.csv\"\n"))
            .expect_err("no file");
        assert!(error.contains("none.csv: "), "{error}");
        #[cfg(unix)]
        {
            let device = format!("{link}trace = \"/dev/zero\"\n");
            let error = folder.read(&device).expect_err("no file");
            assert!(error.contains("/dev/zero: not a regular file"), "{error}");
        }
    }
}
