//! The links of a mesh that a comparison runs over.

use std::path::Path;
use std::sync::Arc;

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;

use super::CompareError;
use crate::scenario::mesh_links;
use crate::scenario::value::{Value, Values, table};

/// Meshes whose links were measured: name in link files, topology of scenarios.
const MEASURED: [(&str, &str); 3] = [
    ("pint", "pint-measured"),
    ("office", "evalab-measured"),
    ("marina", "marina-measured"),
];

/// Links of a mesh of IEEE 802.15.4 with static routes, as Thread's, which settle once.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshLinks {
    /// Name of the measured mesh, or path of a CSV.
    pub name: String,
    /// Number of nodes, the root included.
    pub nodes: usize,
    topology: &'static str,
    /// Text of the CSV, if it is a user's file.
    csv: Option<Arc<str>>,
}

impl MeshLinks {
    /// Reads the value of `mesh` in a link file of the name `link`: a measured mesh, or a CSV relative to the file.
    pub(super) fn read(link: &str, mesh: Option<&str>) -> Result<Option<Self>, CompareError> {
        let Some(mesh) = mesh else {
            return Ok(None);
        };
        let wrong = |why: String| {
            let known: Vec<&str> = MEASURED.iter().map(|(name, _)| *name).collect();
            CompareError::of(
                format_args!("{link}: mesh: {mesh}: {why}"),
                &format!(
                    "mesh takes {}, or a CSV with columns from,to,delivery",
                    known.join(", ")
                ),
            )
        };
        let measured = MEASURED.iter().find(|(name, _)| *name == mesh);
        let (topology, csv) = if let Some((_, topology)) = measured {
            (*topology, None)
        } else {
            let folder = Path::new(link).parent().unwrap_or(Path::new(""));
            let text = mesh_links::text(&folder.join(mesh)).map_err(wrong)?;
            ("links", Some(text))
        };
        let nodes = match &csv {
            Some(csv) => mesh_links::nodes(csv),
            None => mesh_links::nodes_of(topology),
        };
        Ok(Some(Self {
            name: mesh.to_owned(),
            nodes: nodes.map_err(wrong)?,
            topology,
            csv: csv.map(Arc::from),
        }))
    }

    /// One line about it.
    pub(super) fn about(&self) -> String {
        let links = match self.csv {
            None => format!("links measured in {}", self.name),
            Some(_) => format!("links of {}", self.name),
        };
        format!("a mesh of {} nodes of IEEE 802.15.4, {links}", self.nodes)
    }

    /// Adds its keys, with MAC, adaptation layer and routing, to the values of a scenario.
    pub(super) fn set_in(&self, values: &mut Values) {
        let mac = [
            ("csma", "ieee802154".into()),
            ("transmissions_max", 16.into()),
        ];
        let lowpan = [
            ("version", "contiki3x".into()),
            ("rpl_option", "off".into()),
        ];
        let rpl = [
            ("routing", "static".into()),
            ("settled_after", Duration::from_secs(300).into()),
            ("version", "contiki3x".into()),
            ("max_link_metric", Value::Number(Ratio::new(4, 1))),
            ("dio_doublings", 20.into()),
            ("no_route_buffer", 8.into()),
        ];
        values.extend(table("mesh", [("topology", self.topology.into())]));
        let links = self.csv.as_deref().map(|csv| [("links", csv.into())]);
        values.extend(links.into_iter().flat_map(|links| table("mesh", links)));
        values.extend(table("mac", mac));
        values.extend(table("lowpan", lowpan));
        values.extend(table("rpl", rpl));
    }
}

#[cfg(test)]
mod tests {
    use carob_sim::spec::NetworkSpec;

    use super::super::{Link, Question, Traffic};
    use crate::scenario::value::Values;

    #[test]
    fn a_table_of_a_mesh_is_a_link_and_its_ratios_count() {
        let folder = std::env::temp_dir().join(format!("carob-mesh-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let csv = "# measured\nfrom,to,delivery\n# the root\n3,1,0.9\n1,3,0.9\n1,2,0.5\n2,1,0.5\n";
        std::fs::write(folder.join("links.csv"), csv).expect("a file");
        let file = folder.join("link.toml").display().to_string();
        let link = Link::from_file(&file, "[link]\nmesh = \"links.csv\"").expect("a link");
        assert!(
            link.about().contains("a mesh of 3 nodes"),
            "{}",
            link.about()
        );
        let mut traffic = Traffic::named("telemetry").expect("known");
        traffic.clients = 2;
        let question = Question::new(link, traffic);
        let _ = std::fs::remove_dir_all(&folder);
        let spec = question.spec(&Values::new()).expect("possible");
        let NetworkSpec::Mesh(mesh) = &spec.network else {
            panic!("a link")
        };
        assert_eq!(mesh.radio.delivery, carob_sim::mesh::spec::Delivery::Table);
        let record = carob_sim::run(&spec).expect("a run");
        assert!(record.flows.iter().all(|flow| flow.finished.is_some()));
        let missing = Link::from_file(&file, "[link]\nmesh = \"none.csv\"").expect_err("no file");
        assert!(missing.what.contains("none.csv"), "{missing}");
    }
}
