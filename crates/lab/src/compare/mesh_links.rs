//! The links of a mesh that a comparison runs over.

use std::path::Path;
use std::sync::Arc;

use super::CompareError;
use crate::scenario::mesh_links;

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

    /// Its tables in a scenario file.
    pub(super) fn toml(&self) -> String {
        let links = self.csv.as_ref().map(|csv| {
            let text = toml::Value::String(csv.to_string());
            format!("links = {text}\n")
        });
        format!(
            "[mesh]\ntopology = \"{}\"\n{}{LAYERS}",
            self.topology,
            links.unwrap_or_default()
        )
    }
}

/// MAC, adaptation layer and routing.
const LAYERS: &str = r#"
[mac]
csma = "ieee802154"
transmissions_max = 16

[lowpan]
version = "contiki3x"
rpl_option = "off"

[rpl]
routing = "static"
settled_after = "5 min"
version = "contiki3x"
max_link_metric = 4
dio_doublings = 20
no_route_buffer = 8
"#;

#[cfg(test)]
mod tests {
    use carob_sim::spec::NetworkSpec;

    use super::super::{Link, Question, Traffic};
    use crate::scenario::Scenario;

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
        let text = question.scenario_text(&["default"], &question.default_coap(), 1);
        let _ = std::fs::remove_dir_all(&folder);
        let read = Scenario::read("a.toml", &text, &[]).expect(&text);
        let spec = read.spec(&read.cells()[0], &read.algorithms()[0], 1);
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
