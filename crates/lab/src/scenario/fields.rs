//! Fields of specifications, from the values of keys.

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_sim::distribution::TimeDistribution;
use carob_sim::random::Probability;
use carob_sim::spec::Span;

use super::cell::Cell;
use super::error::ScenarioError;
use super::value::Value;

/// Type of a field that a key sets.
pub(crate) trait Field: Sized {
    /// The field for a value; `None` if the value is of another kind.
    fn of(value: &Value) -> Option<Self>;
}

/// Implements [`Field`]: type, then the values that it takes.
macro_rules! field {
    ($($of:ty: $value:pat => $got:expr;)+) => {
        $(impl Field for $of {
            fn of(value: &Value) -> Option<Self> {
                match value {
                    $value => Some($got),
                    _ => None,
                }
            }
        })+
    };
}

field! {
    String: Value::Text(text) => text.clone();
    bool: Value::Text(word) => word == "on";
    Ratio: Value::Number(ratio) => *ratio;
    Duration: Value::Time(Some(time)) => *time;
    Span: Value::Span(span) => *span;
    TimeDistribution: Value::Distribution(times) => *times;
    Probability: Value::Percent(ppm) => Probability::ppm(*ppm);
}

/// Implements [`Field`] for whole numbers, which are in the unit of [`Value`].
macro_rules! whole {
    ($($of:ty)+) => {
        $(impl Field for $of {
            fn of(value: &Value) -> Option<Self> {
                match *value {
                    Value::Whole(n) | Value::Bytes(n) | Value::Buffer(n) => n.try_into().ok(),
                    Value::Rate(n) | Value::Power(n) => n.try_into().ok(),
                    Value::Percent(n) | Value::Length(n) | Value::Decibels(n) => n.try_into().ok(),
                    _ => None,
                }
            }
        })+
    };
}

whole! { u8 u16 u32 u64 }

/// A field that is absent for `none`, or where its key is not set.
impl<T: Field> Field for Option<T> {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Time(None) => Some(None),
            _ => T::of(value).map(Some),
        }
    }
}

/// Specification with fields that keys set; declared by `keys!`.
pub(super) trait Fields {
    /// Sets the fields whose keys `get` has a value for; fails with the key of a value of another kind.
    fn set<'a>(&mut self, get: impl Fn(&str) -> Option<&'a Value>) -> Result<(), &'static str>;
}

impl Cell {
    /// A specification with the values of its keys, and its defaults elsewhere.
    pub(super) fn fields<T: Fields + Default>(&self) -> Result<T, ScenarioError> {
        self.fields_over(T::default())
    }

    /// The same, if a key is set.
    pub(super) fn fields_if<T: Fields + Default>(
        &self,
        path: &str,
    ) -> Result<Option<T>, ScenarioError> {
        self.has(path).then(|| self.fields()).transpose()
    }

    /// A specification, overridden by the values of its keys.
    pub(super) fn fields_over<T: Fields>(&self, mut spec: T) -> Result<T, ScenarioError> {
        let set = spec.set(|path| Some(&self.settings.get(path)?.value));
        set.map_err(|path| self.wrong_kind(path))?;
        Ok(spec)
    }

    /// The value of a key.
    pub(crate) fn get<T: Field>(&self, path: &str) -> Result<T, ScenarioError> {
        T::of(self.value_of(path)?).ok_or_else(|| self.wrong_kind(path))
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::Kind;
    use super::super::{Scenario, ScenarioErrors, keys};

    /// Settings of a run over a link, and those with which the mechanisms of all keys are in use.
    const LINK: &str = "workload.kind=exchanges; token_bytes=1; request=60 B; response=60 B; down.rate=1 Mbit/s; down.delay=9 ms; up.rate=1 Mbit/s";
    const OVER_LINKS: [&str; 7] = [
        "workload.kind=notifications",
        "mix.second=default; server.pause=1 min; pause_duration=1 ms; faults.client_restart=1 s; \
         faults.server_restart=1 s; faults.rebinding=1 s; faults.outage=1 min; outage_duration=1 ms; \
         idle_setup=1 s; paging_cycle=5 s; psm_active=1 s; power_send=1 mW; policer=1 Mbit/s; \
         up.device_rate=1 Mbit/s; down.device_rate=1 Mbit/s; reordering=1 %; link.queue=codel; loss=1 %",
        "client=random; request_period=9 s; error=medium; \
         fragment=50 B; up.device_rate=9 kbit/s; down.device_rate=9 kbit/s",
        "error=high; error_clock=time; down.trace=time_ms,rate_kbit_s\n0,20\n500,40",
        "fragment_window=500 B; fragment_mode=ack-on-error; fragment=50 B; \
         up.device_rate=9 kbit/s; down.device_rate=9 kbit/s",
        "run.algorithms=tcp-newreno",
        "workload.kind=notifications; aggregate=on; notification_queue=queue",
    ];
    /// The same of runs over a wireless network.
    const MESH: &str = "workload.kind=mesh; token_bytes=1; traffic.burst=1";
    const OVER_MESHES: [&str; 3] = [
        "radio.link=lossy",
        "traffic.load=1 kbit/s; traffic.gaps=uniform; traffic.stop=1 %; burst_every=9 s; \
         rpl.routing=static; radio.noise=on; radio.capture=threshold; radio.delivery=fixed",
        "mesh.topology=links; mesh.links=a,b,etx\n1,2,1.2\n2,3,1.3",
    ];

    /// Keys of names, texts and the choice of runs; `mix.second_kind` is only checked, and `run.network`
    /// goes with no key of a link.
    const OF_NO_RUN: &str = "about study family cell compare_with variant run.algorithms run.seeds \
                             run.first_seed run.network mix.first mix.second_kind";

    /// The specification of a run with these settings, as text.
    fn run(set: &str) -> Result<String, ScenarioErrors> {
        let text = "run.algorithms = [\"default\"]";
        let set: Vec<String> = set.split("; ").map(str::to_owned).collect();
        let read = Scenario::read("test.toml", text, &set);
        let scenario = read.inspect_err(|error| {
            let is_of_type = !error.to_string().contains("another kind");
            assert!(is_of_type, "{set:?}: {error}");
        })?;
        let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
        Ok(format!("{spec:?}"))
    }

    /// Values of which at least one is possible and no default; the largest, which the field must hold, first.
    fn values(kind: Kind) -> String {
        match kind {
            Kind::Word(words) => words.join("; "),
            Kind::Whole(low, high) => format!("{high}; {low}; {}; {}", low + 1, low + 2),
            Kind::Bytes(low, high) => format!("{high} B; {low} B; 32 B; 80 B; 600 B"),
            Kind::Text => "cocoa-plus; corner; 2x2; 1/2; 75:0 100:100; loss 1 % from 5 s; \
                           time_ms,delay_ms\n0,1\n9,2; a,b,etx\n1,2,1.1"
                .to_owned(),
            _ => "2; 1/3; 3 s; 30 ms; 4 min; 70 kbit/s; 9 kB; 7 mW; 7 %; 7 m; 7 dB".to_owned(),
        }
    }

    #[test]
    fn every_key_changes_the_specification_of_a_run() {
        let over_links = OVER_LINKS.map(|set| format!("{LINK}; {set}"));
        let over_meshes = OVER_MESHES.map(|set| format!("{MESH}; {set}"));
        let known = over_links.iter().chain(&over_meshes);
        let known: Vec<_> = known
            .map(|set| (set, run(set).expect("possible")))
            .collect();
        let changes = |(path, kind): &(String, Kind)| {
            known.iter().any(|(set, before)| {
                let with = |value: &str| run(&format!("{set}; {path}={value}"));
                let values = values(*kind);
                let mut values = values.split("; ");
                values.any(|value| with(value).is_ok_and(|spec| spec != *before))
            })
        };
        let keys =
            keys::fixed_paths().filter(|(path, _)| !OF_NO_RUN.split(' ').any(|key| key == path));
        let unread: Vec<_> = keys.filter(|key| !changes(key)).collect();
        assert!(unread.is_empty(), "nothing reads {unread:?}");
    }
}
