//! A container image as an OCI image layout (image-spec 1.1): one layer with the static binary.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::sha256;
use super::tar::{self, Entry};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// The program in the image.
const PROGRAM: &str = "carob";
/// A user without a name, as in images without /etc/passwd.
const USER: &str = "65532:65532";

/// Writes an image layout to a new folder.
pub(super) fn write(
    folder: &Path,
    binary: Vec<u8>,
    version: &str,
    licences: &[Entry],
) -> Result<()> {
    let program = Entry {
        name: PROGRAM.to_owned(),
        mode: 0o755,
        bytes: binary,
    };
    let entries: Vec<Entry> = [program]
        .into_iter()
        .chain(licences.iter().cloned())
        .collect();
    let layer = tar::write(&entries)?;
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": USER,
            "ExposedPorts": { "5683/udp": {}, "5684/udp": {} },
            "Entrypoint": [format!("/{PROGRAM}")],
            "Cmd": ["serve"],
            "StopSignal": "SIGTERM",
        },
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, &layer)],
        "annotations": {
            "org.opencontainers.image.title": "carob",
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        },
    });
    let manifest = manifest.to_string().into_bytes();
    let mut of_index = descriptor(MANIFEST, &manifest);
    of_index["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    of_index["annotations"] = json!({ "org.opencontainers.image.ref.name": version });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [of_index] });
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder.join("blobs/sha256"))?;
    for blob in [&layer, &config, &manifest] {
        fs::write(blob_path(folder, &digest(blob))?, blob)?;
    }
    fs::write(folder.join("index.json"), index.to_string())?;
    fs::write(
        folder.join("oci-layout"),
        json!({ "imageLayoutVersion": "1.0.0" }).to_string(),
    )?;
    Ok(())
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}

/// The file of a blob.
fn blob_path(folder: &Path, digest: &str) -> Result<std::path::PathBuf> {
    let hex = digest
        .strip_prefix("sha256:")
        .context("a digest begins with sha256:")?;
    let is_hex = hex.len() == 64 && hex.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    ensure!(
        is_hex,
        "{digest}: expected 64 lower-case hexadecimal digits"
    );
    Ok(folder.join("blobs/sha256").join(hex))
}

/// Checks a layout: versions, media types, digests, sizes, required fields, the layer's files, and that
/// the program needs no dynamic loader.
pub(super) fn lint(folder: &Path) -> Result<()> {
    let layout = json_file(&folder.join("oci-layout"))?;
    expect(&layout, "imageLayoutVersion", "1.0.0")?;
    let index = json_file(&folder.join("index.json"))?;
    ensure!(
        index["schemaVersion"] == 2,
        "index.json: schemaVersion is not 2"
    );
    expect(&index, "mediaType", INDEX)?;
    let manifests = index["manifests"]
        .as_array()
        .context("index.json: no manifests")?;
    ensure!(!manifests.is_empty(), "index.json: no manifest");
    for one in manifests {
        let platform = &one["platform"];
        expect(platform, "os", "linux")?;
        ensure!(
            platform["architecture"].is_string(),
            "index.json: no architecture"
        );
        lint_manifest(folder, &blob(folder, one, MANIFEST)?, platform)?;
    }
    Ok(())
}

fn lint_manifest(folder: &Path, manifest: &[u8], platform: &Value) -> Result<()> {
    let manifest: Value = serde_json::from_slice(manifest).context("the manifest")?;
    ensure!(
        manifest["schemaVersion"] == 2,
        "the manifest's schemaVersion is not 2"
    );
    expect(&manifest, "mediaType", MANIFEST)?;
    let config: Value = serde_json::from_slice(&blob(folder, &manifest["config"], CONFIG)?)?;
    for name in ["architecture", "os"] {
        ensure!(
            config[name] == platform[name],
            "{name} differs between index and configuration"
        );
    }
    expect(&config["rootfs"], "type", "layers")?;
    let layers = manifest["layers"]
        .as_array()
        .context("the manifest has no layers")?;
    let ids = config["rootfs"]["diff_ids"]
        .as_array()
        .context("no diff_ids")?;
    ensure!(
        layers.len() == ids.len(),
        "as many diff_ids as layers are needed"
    );
    let mut files = Vec::new();
    for (layer, id) in layers.iter().zip(ids) {
        let bytes = blob(folder, layer, LAYER)?;
        // Without compression both digests are of the same bytes.
        ensure!(
            *id == digest(&bytes),
            "a diff_id is not the digest of its layer"
        );
        files.extend(tar::read(&bytes)?);
    }
    let entrypoint = config["config"]["Entrypoint"][0]
        .as_str()
        .context("no Entrypoint")?;
    let program = files
        .iter()
        .find(|file| format!("/{}", file.name) == entrypoint);
    let program = program.with_context(|| format!("{entrypoint} is in no layer"))?;
    ensure!(
        program.mode & 0o111 == 0o111,
        "{entrypoint} is not executable"
    );
    ensure!(
        config["config"]["User"].is_string(),
        "the image runs as root"
    );
    ensure!(
        !needs_loader(&program.bytes)?,
        "{entrypoint} needs a dynamic loader, and the image has none"
    );
    Ok(())
}

fn json_file(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

fn expect(object: &Value, name: &str, value: &str) -> Result<()> {
    ensure!(
        object[name] == value,
        "{name} is {}, expected \"{value}\"",
        object[name]
    );
    Ok(())
}

/// The blob of a descriptor, whose media type, digest and size are right.
fn blob(folder: &Path, descriptor: &Value, media_type: &str) -> Result<Vec<u8>> {
    expect(descriptor, "mediaType", media_type)?;
    let named = descriptor["digest"]
        .as_str()
        .context("a descriptor has no digest")?;
    let path = blob_path(folder, named)?;
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        digest(&bytes) == named,
        "{} has another digest",
        path.display()
    );
    ensure!(
        descriptor["size"] == bytes.len(),
        "{} has another size",
        path.display()
    );
    Ok(bytes)
}

/// Returns true if a program of 64-bit ELF names a dynamic loader (`PT_INTERP`).
pub(super) fn needs_loader(program: &[u8]) -> Result<bool> {
    const PT_INTERP: u64 = 3;
    ensure!(
        program.starts_with(b"\x7fELF\x02\x01"),
        "not a program of 64-bit little-endian ELF"
    );
    let field = |at: usize, length: usize| -> Result<u64> {
        let Some(bytes) = program.get(at..at + length) else {
            bail!("the ELF headers end early");
        };
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let (table, size, count) = (field(32, 8)?, field(54, 2)?, field(56, 2)?);
    for number in 0..count {
        let header = usize::try_from(table + number * size)?;
        if field(header, 4)? == PT_INTERP {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// An ELF header and one program header of this type.
    fn program(kind: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[32], bytes[54], bytes[56], bytes[64]) = (64, 56, 1, kind);
        bytes
    }

    /// A layout in a folder of its own, gone with it.
    struct Layout(PathBuf);

    impl Layout {
        fn new(name: &str, program: Vec<u8>) -> Self {
            let folder = format!("carob-image-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            write(&folder, program, "0.1.0", &[]).unwrap();
            Self(folder)
        }

        fn refused(&self) -> String {
            lint(&self.0).expect_err("it must be refused").to_string()
        }

        fn replace(&self, file: &str, from: &str, to: &str) {
            let text = fs::read_to_string(self.0.join(file)).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(self.0.join(file), text.replace(from, to)).unwrap();
        }
    }

    impl Drop for Layout {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_image_of_a_static_program_passes() {
        let (one, other) = (
            Layout::new("one", program(1)),
            Layout::new("other", program(1)),
        );
        lint(&one.0).unwrap();
        let index = |layout: &Layout| fs::read(layout.0.join("index.json")).unwrap();
        assert_eq!(index(&one), index(&other));
    }

    #[test]
    fn a_program_with_a_loader_is_refused() {
        assert!(
            Layout::new("loader", program(3))
                .refused()
                .contains("dynamic loader")
        );
        assert!(
            Layout::new("script", b"#!/bin/sh".to_vec())
                .refused()
                .contains("ELF")
        );
    }

    #[test]
    fn a_wrong_field_digest_or_size_is_refused() {
        let layout = Layout::new("version", program(1));
        layout.replace("oci-layout", "1.0.0", "2.0.0");
        assert!(layout.refused().contains("imageLayoutVersion"));
        let layout = Layout::new("type", program(1));
        layout.replace("index.json", MANIFEST, CONFIG);
        assert!(layout.refused().contains("mediaType"));
        let layout = Layout::new("digest", program(1));
        for blob in fs::read_dir(layout.0.join("blobs/sha256")).unwrap() {
            fs::write(blob.unwrap().path(), "{}").unwrap();
        }
        assert!(layout.refused().contains("another digest"));
    }
}
