//! Transmission parameters (RFC 7252 4.8) that differ between the algorithms of a table.

use crate::run::Row;

/// The most algorithms that are named with a value; of more, those with the commonest value are the
/// others.
const NAMED_MAX: usize = 4;

/// A sentence about the parameters that differ between algorithms of one cell; nothing where none
/// does.
pub(crate) fn note(rows: &[Row]) -> Option<String> {
    let names = rows.first()?.transmission.iter().map(|(name, _)| *name);
    let names: Vec<&str> = if let Some(row) = rows.iter().find(|row| !row.transmission.is_empty()) {
        row.transmission.iter().map(|(name, _)| *name).collect()
    } else {
        names.collect()
    };
    let differing: Vec<String> = names.iter().filter_map(|name| of_one(rows, name)).collect();
    (!differing.is_empty())
        .then(|| format!("Transmission parameters differ: {}.", differing.join("; ")))
}

fn of_one(rows: &[Row], name: &str) -> Option<String> {
    let value = |row: &Row| {
        let mut parameters = row.transmission.iter();
        let found = parameters.find(|(key, _)| *key == name)?;
        Some(found.1.clone())
    };
    let mut per_cell: Vec<Vec<(String, Vec<&str>)>> = Vec::new();
    for cell in rows.chunk_by(|a, b| a.scenario == b.scenario) {
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for row in cell {
            let Some(value) = value(row) else { continue };
            match groups.iter_mut().find(|(known, _)| *known == value) {
                Some((_, algorithms)) => algorithms.push(&row.algorithm),
                None => groups.push((value, vec![&row.algorithm])),
            }
        }
        if groups.len() > 1 && !per_cell.contains(&groups) {
            per_cell.push(groups);
        }
    }
    let [groups] = &mut per_cell[..] else {
        let varies = format!("{name} also between cells (carob lab show CELL)");
        return (!per_cell.is_empty()).then_some(varies);
    };
    groups.sort_by_key(|(_, algorithms)| std::cmp::Reverse(algorithms.len()));
    let texts = groups.iter().enumerate().map(|(k, (value, algorithms))| {
        let of = if k == 0 && algorithms.len() > NAMED_MAX {
            "others".to_owned()
        } else {
            algorithms.join(", ")
        };
        format!("{value} ({of})")
    });
    Some(format!("{name} {}", texts.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(scenario: &str, algorithm: &str, max_retransmit: &str) -> Row {
        Row {
            scenario: scenario.to_owned(),
            algorithm: algorithm.to_owned(),
            transmission: vec![
                ("ack_timeout", "2 s".to_owned()),
                ("max_retransmit", max_retransmit.to_owned()),
            ],
            ..Row::default()
        }
    }

    #[test]
    fn only_parameters_that_differ_between_algorithms_are_named() {
        let same = [row("a", "default", "4"), row("b", "default", "20")];
        assert_eq!(note(&same), None);
        let two = [row("a", "default", "20"), row("a", "nb-iot", "5")];
        let expected = "Transmission parameters differ: max_retransmit 20 (default), 5 (nb-iot).";
        assert_eq!(note(&two).as_deref(), Some(expected));
        let names = ["a", "b", "c", "d", "e"].map(|name| row("a", name, "20"));
        let many = [&names[..], &[row("a", "nb-iot", "5")]].concat();
        let note = note(&many).expect("one differs");
        assert!(
            note.contains("max_retransmit 20 (others), 5 (nb-iot)"),
            "{note}"
        );
    }
}
