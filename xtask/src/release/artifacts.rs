//! The files of a release, each made by a command that anyone can run.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::tar::Entry;
use super::{Release, image as layout, sbom, sha256};
use crate::process;
use crate::steps::{Outcome, bare_metal, watch};
use crate::workspace::Workspace;

/// Crates of the registry, each after those that it needs.
pub(super) const PUBLISHED: &[&str] = &[
    "carob-cc",
    "carob-proto",
    "carob",
    "carob-sim",
    "carob-analyze",
    "carob-emu",
    "carob-lab",
    "carob-studies",
    "carob-cli",
];

pub(super) const MUSL: &str = "x86_64-unknown-linux-musl";
pub(super) const GNU: &str = "x86_64-unknown-linux-gnu";
const MUSL_GCC: &str = "/usr/bin/musl-gcc";
/// The unwinder of LLVM.
const UNWINDER: &str = "/usr/lib/llvm-16/lib/libunwind.a";

/// Arguments of cargo that build the command as it is published.
const BUILD: [&str; 8] = [
    "build",
    "--profile",
    "dist",
    "--locked",
    "--package",
    "carob-cli",
    "--features",
    "full",
];

pub(super) fn clean_tree(release: &Release<'_>) -> Result<Outcome> {
    let mut command = Command::new("git");
    command
        .args(["status", "--porcelain"])
        .current_dir(&release.workspace.root);
    let changes = process::output(&mut command)?;
    print!("{changes}");
    Ok(Outcome::of(changes.is_empty()))
}

pub(super) fn deny(release: &Release<'_>) -> Result<Outcome> {
    if process::find("cargo-deny").is_none() {
        return Ok(Outcome::Skipped(
            "no cargo-deny (cargo install cargo-deny)".to_owned(),
        ));
    }
    let mut command = process::cargo();
    command.args(["deny", "--all-features", "check"]);
    watch::succeeds(command.current_dir(&release.workspace.root)).map(Outcome::of)
}

/// Packages every crate and builds it from its package, as a user of the registry does.
pub(super) fn packages(release: &Release<'_>) -> Result<Outcome> {
    let mut command = process::cargo();
    command.args(["package", "--locked"]);
    for name in PUBLISHED {
        command.args(["--package", name]);
    }
    if !watch::succeeds(command.current_dir(&release.workspace.root))? {
        return Ok(Outcome::Failed);
    }
    let packages = release.workspace.target()?.join("package");
    for name in PUBLISHED {
        let file = format!("{name}-{}.crate", release.version);
        fs::copy(packages.join(&file), release.folder.join(&file))
            .with_context(|| format!("no package {file}"))?;
    }
    Ok(Outcome::Passed)
}

/// Returns true if the crates name a repository.
pub(super) fn has_repository(workspace: &Workspace) -> Result<bool> {
    let manifest: toml::Table = fs::read_to_string(workspace.root.join("Cargo.toml"))?.parse()?;
    Ok(manifest["workspace"]["package"].get("repository").is_some())
}

/// True if an author has an address, by which a Debian package names its maintainer.
pub(super) fn has_address(workspace: &Workspace) -> Result<bool> {
    let manifest: toml::Table = fs::read_to_string(workspace.root.join("Cargo.toml"))?.parse()?;
    let authors = manifest["workspace"]["package"]["authors"].as_array();
    let mut names = authors
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_str);
    Ok(names.any(|name| name.contains('@')))
}

pub(super) fn bill_of_materials(release: &Release<'_>) -> Result<Outcome> {
    let document = sbom::document(release.workspace)?;
    let file = release.folder.join("carob.cdx.json");
    fs::write(&file, serde_json::to_string_pretty(&document)? + "\n")?;
    let count = document["components"].as_array().map_or(0, Vec::len);
    println!("{}: {count} crates", file.display());
    Ok(Outcome::Passed)
}

/// The program of the profile `dist`; its dependencies are recorded in it where cargo-auditable is
/// installed. Manual pages and completions beside it.
pub(super) fn program(release: &Release<'_>) -> Result<Outcome> {
    let auditable = process::find("cargo-auditable").is_some();
    let mut command = process::cargo();
    if auditable {
        command.arg("auditable");
    }
    command.args(BUILD);
    if !watch::succeeds(command.current_dir(&release.workspace.root))? {
        return Ok(Outcome::Failed);
    }
    let program = release.workspace.target()?.join("dist/carob");
    fs::copy(&program, release.folder.join("carob"))?;
    process::must(
        Command::new(&program)
            .args(["man", "--dir"])
            .arg(release.folder.join("man")),
    )?;
    let completions = release.folder.join("completions");
    fs::create_dir_all(&completions)?;
    for (shell, file) in [
        ("bash", "carob.bash"),
        ("fish", "carob.fish"),
        ("zsh", "_carob"),
    ] {
        let script = process::output(Command::new(&program).args(["completions", shell]))?;
        fs::write(completions.join(file), script)?;
    }
    if auditable {
        return Ok(Outcome::Passed);
    }
    let note = "without recorded dependencies (cargo install cargo-auditable)";
    Ok(Outcome::PassedExcept(note.to_owned()))
}

/// A program without a dynamic loader: with musl where its compiler and the library source are, else
/// with glibc, whose resolver still loads libraries for names of hosts.
pub(super) fn static_program(release: &Release<'_>) -> Result<Outcome> {
    let file = release.folder.join("carob-static");
    let musl = [MUSL_GCC, UNWINDER]
        .iter()
        .all(|file| Path::new(file).is_file())
        && bare_metal::has_library_source()?;
    let built = if musl {
        with_musl(release)?
    } else {
        with_glibc(release)?
    };
    let Some(built) = built else {
        return Ok(Outcome::Failed);
    };
    fs::copy(&built, &file)?;
    if layout::needs_loader(&fs::read(&file)?)? {
        println!("{} needs a dynamic loader", file.display());
        return Ok(Outcome::Failed);
    }
    process::must(Command::new(&file).args([
        "lab",
        "run",
        "thesis/long-1c-none-2500",
        "--no-report",
    ]))?;
    if musl {
        return Ok(Outcome::Passed);
    }
    let note = format!(
        "with glibc: no {MUSL_GCC}, {UNWINDER} and library source (apt-get install musl-tools libunwind-16-dev rustc-web rust-web-src)"
    );
    Ok(Outcome::PassedExcept(note))
}

/// The folder of the unwinder that the standard library links: that of LLVM. GCC's needs a function of
/// glibc to find a frame.
fn unwinder(directory: &Path) -> Result<PathBuf> {
    let libraries = directory.join("libraries");
    fs::create_dir_all(&libraries)?;
    let library = libraries.join("libunwind.a");
    fs::copy(UNWINDER, &library)?;
    // It was compiled for glibc, with a checked function in its log; musl has the plain one.
    let (source, object) = (libraries.join("log.c"), libraries.join("log.o"));
    fs::write(
        &source,
        "#include <stdarg.h>\n\
         #include <stdio.h>\n\
         int __fprintf_chk(FILE *file, int level, const char *format, ...) {\n\
         \x20   (void)level;\n\
         \x20   va_list values;\n\
         \x20   va_start(values, format);\n\
         \x20   int count = vfprintf(file, format, values);\n\
         \x20   va_end(values);\n\
         \x20   return count;\n\
         }\n",
    )?;
    let mut compile = Command::new(MUSL_GCC);
    process::must(compile.arg("-c").arg(&source).arg("-o").arg(&object))?;
    process::must(Command::new("ar").arg("r").arg(&library).arg(&object))?;
    Ok(libraries)
}

/// A cargo that builds for musl in the folder, with the flags of the static program.
fn musl_cargo(directory: &Path) -> Result<Command> {
    let libraries = unwinder(directory)?;
    // Debian's musl-gcc knows no static programs at a random address: it names a loader for them.
    let flags = format!(
        "-C target-feature=+crt-static -C relocation-model=static -C link-self-contained=no -L native={}",
        libraries.display()
    );
    let mut command = process::cargo();
    command
        .env("RUSTC", bare_metal::DISTRIBUTION_RUSTC)
        // `-Z build-std` asks for a nightly or for this.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", directory)
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", MUSL_GCC)
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", flags)
        .env("CC_x86_64_unknown_linux_musl", MUSL_GCC);
    Ok(command)
}

const MUSL_TARGET: [&str; 4] = ["-Z", "build-std=std,panic_unwind", "--target", MUSL];

fn with_musl(release: &Release<'_>) -> Result<Option<PathBuf>> {
    let directory = release.workspace.target()?.join("musl");
    if !panics_unwind(release, &directory)? {
        return Ok(None);
    }
    let mut command = musl_cargo(&directory)?;
    command.args(BUILD).args(MUSL_TARGET);
    let built = watch::succeeds(command.current_dir(&release.workspace.root))?;
    Ok(built.then(|| directory.join(MUSL).join("dist/carob")))
}

/// Builds `tools/unwind` as the static program is built, and runs it: a handler that panics must not end
/// the server.
fn panics_unwind(release: &Release<'_>, directory: &Path) -> Result<bool> {
    let mut command = musl_cargo(directory)?;
    command
        .args(["build", "--profile", "dist", "--locked"])
        .args(MUSL_TARGET);
    let folder = release.workspace.root.join("tools/unwind");
    if !watch::succeeds(command.current_dir(folder))? {
        return Ok(false);
    }
    watch::succeeds(&mut Command::new(directory.join(MUSL).join("dist/unwind")))
}

fn with_glibc(release: &Release<'_>) -> Result<Option<PathBuf>> {
    let directory = release.workspace.target()?.join("static");
    let mut command = process::cargo();
    command
        .env("CARGO_TARGET_DIR", &directory)
        .env(
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "-C target-feature=+crt-static",
        )
        .args(BUILD)
        .args(["--target", GNU]);
    let built = watch::succeeds(command.current_dir(&release.workspace.root))?;
    Ok(built.then(|| directory.join(GNU).join("dist/carob")))
}

/// An image of the static program, and its check.
pub(super) fn image(release: &Release<'_>) -> Result<Outcome> {
    let program = release.folder.join("carob-static");
    let Ok(program) = fs::read(&program) else {
        return Ok(Outcome::Skipped(
            "no static program (the check `static`)".to_owned(),
        ));
    };
    let licence = |name: &str| -> Result<Entry> {
        Ok(Entry {
            name: format!("licenses/{name}"),
            mode: 0o644,
            bytes: fs::read(release.workspace.root.join(name))?,
        })
    };
    let licences = [licence("LICENSE-MIT")?, licence("LICENSE-APACHE")?];
    let folder = release.folder.join("carob-image");
    layout::write(&folder, program, &release.version, &licences)?;
    layout::lint(&folder)?;
    // Tools such as skopeo and podman take the folder, or this archive of it.
    let archive = release.folder.join("carob-image.tar");
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-cf"]);
    process::must(command.arg(&archive).arg("-C").arg(&folder).arg("."))?;
    println!("{}", archive.display());
    Ok(Outcome::Passed)
}

pub(super) fn debian(release: &Release<'_>) -> Result<Outcome> {
    if process::find("cargo-deb").is_none() {
        return Ok(Outcome::Skipped(
            "no cargo-deb (cargo install cargo-deb)".to_owned(),
        ));
    }
    let mut command = process::cargo();
    command.args([
        "deb",
        "--package",
        "carob-cli",
        "--profile",
        "dist",
        "--no-build",
        "--output",
    ]);
    command.arg(&release.folder);
    watch::succeeds(command.current_dir(&release.workspace.root)).map(Outcome::of)
}

/// Writes the sums of all files of the release, in the form that `sha256sum --check` reads.
pub(super) fn sums(release: &Release<'_>) -> Result<Outcome> {
    let mut files: Vec<PathBuf> = (fs::read_dir(&release.folder)?)
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| file.is_file() && file.file_name() != Some("SHA256SUMS".as_ref()));
    files.sort();
    let mut text = String::new();
    for file in &files {
        let hex = sha256(&fs::read(file)?);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        writeln!(text, "{hex}  {name}")?;
    }
    print!("{text}");
    fs::write(release.folder.join("SHA256SUMS"), text)?;
    Ok(Outcome::of(!files.is_empty()))
}
