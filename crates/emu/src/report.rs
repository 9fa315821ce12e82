//! Reports of kernel settings and of the machine's capabilities.

use std::fmt;

/// A setting: requested and actual value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name: a file below `/proc/sys`, or a description.
    pub name: String,
    /// The requested value.
    pub wanted: String,
    /// The actual value.
    pub got: String,
    /// The reason for a difference, or its effect; may be empty.
    pub note: String,
}

impl Setting {
    /// Returns whether the actual value is the requested one.
    pub fn holds(&self) -> bool {
        self.wanted == self.got
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.holds() {
            return write!(f, "{} = {}", self.name, self.got);
        }
        write!(f, "{} = {}, wanted {}", self.name, self.got, self.wanted)?;
        if self.note.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.note)
        }
    }
}

/// The machine's suitability for link emulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The checked items.
    pub items: Vec<Item>,
}

/// One feature that the emulator uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Description.
    pub what: &'static str,
    /// True if emulation is impossible without it.
    pub required: bool,
    /// The reason for its absence and a remedy; `None` if it is present.
    pub missing: Option<String>,
}

impl Report {
    /// Returns whether all required items are present.
    pub fn can_run(&self) -> bool {
        self.items
            .iter()
            .all(|item| !item.required || item.missing.is_none())
    }

    /// The missing items.
    pub fn missing(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(|item| item.missing.is_some())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}", item.what)?;
            match (&item.missing, item.required) {
                (None, _) => f.write_str(": yes")?,
                (Some(why), true) => write!(f, ": NO: {why}")?,
                (Some(why), false) => write!(f, ": no, it can do without: {why}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_required_checks_are_fatal() {
        let item = |required, missing: Option<&str>| Item {
            what: "it",
            required,
            missing: missing.map(str::to_owned),
        };
        let report = |items: &[Item]| Report {
            items: items.to_vec(),
        };
        assert!(report(&[item(true, None), item(false, Some("old"))]).can_run());
        assert!(!report(&[item(true, Some("forbidden")), item(false, None)]).can_run());
    }

    #[test]
    fn changed_setting_has_a_reason() {
        let setting = Setting {
            name: "delayed ACK".into(),
            wanted: "200 ms".into(),
            got: "40 to 200 ms".into(),
            note: "fixed in the kernel".into(),
        };
        assert_eq!(
            setting.to_string(),
            "delayed ACK = 40 to 200 ms, wanted 200 ms (fixed in the kernel)"
        );
    }
}
