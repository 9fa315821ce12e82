//! Wheels of the Python package for Linux on x86-64 with an older glibc and with musl. The C compiler and
//! linker is zig, which brings both libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Release;
use super::artifacts::{GNU, MUSL};
use crate::process;
use crate::steps::{Outcome, bare_metal, python, watch};

const TOOLS: [&str; 2] = ["maturin>=1.9,<2", "ziglang>=0.14,<1"];
/// Names an interpreter that is linked with musl, with which the wheel for musl is tested.
const INTERPRETER: &str = "CAROB_MUSL_PYTHON";

/// A platform tag of PEP 600 or PEP 656, and what a library under it may need.
struct Platform {
    tag: &'static str,
    target: &'static str,
    /// Shared libraries that each system with this tag has.
    libraries: &'static [&'static str],
    /// The greatest version of glibc whose symbols the library may need.
    glibc: Option<(u32, u32)>,
}

const OLDER_GLIBC: Platform = Platform {
    tag: "manylinux_2_17",
    target: GNU,
    libraries: &[
        "libc.so.6",
        "libm.so.6",
        "libdl.so.2",
        "libpthread.so.0",
        "librt.so.1",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
    ],
    glibc: Some((2, 17)),
};

const WITH_MUSL: Platform = Platform {
    tag: "musllinux_1_2",
    target: MUSL,
    libraries: &["libc.so"],
    glibc: None,
};

/// A run of the lab, and a request to a server of the same process.
const SCRIPT: &str = "\
import asyncio, carob
from carob import aio
print(carob.scenario('thesis/exchange-udp').run(seeds=1))

async def hello(request):
    return 'hello'

async def request():
    server = aio.Server('127.0.0.1:0')
    server.resource('/hello')(hello)
    async with server, aio.Client(controller='carob') as client:
        return await client.get(server.addresses[0] + '/hello', timeout=10)

assert asyncio.run(request()).text == 'hello'
";

/// Builds both wheels into the release's folder, and makes a run with each.
pub(super) fn check(release: &Release<'_>) -> Result<Outcome> {
    let interpreters = python::interpreters()?;
    let (Some(oldest), Some(newest)) = (interpreters.first(), interpreters.last()) else {
        return Ok(Outcome::Skipped(format!("no Python ({})", python::INSTALL)));
    };
    let folder = release.workspace.target()?.join("wheels");
    fs::create_dir_all(&folder)?;
    let tools = python::environment(&folder.join("tools"), newest, &TOOLS)?;
    let Some(wheel) = build(release, &tools, &OLDER_GLIBC)? else {
        return Ok(Outcome::Failed);
    };
    run_wheel(&oldest.path, &tools, &wheel, &folder.join("unpacked-glibc"))?;
    if !bare_metal::has_library_source()? {
        let note = format!(
            "no wheel for musl without library source ({})",
            bare_metal::INSTALL
        );
        return Ok(Outcome::PassedExcept(note));
    }
    let Some(wheel) = build(release, &tools, &WITH_MUSL)? else {
        return Ok(Outcome::Failed);
    };
    let Some(interpreter) = std::env::var_os(INTERPRETER) else {
        let note = format!("the wheel for musl was not imported ({INTERPRETER}=FILE)");
        return Ok(Outcome::PassedExcept(note));
    };
    run_wheel(
        Path::new(&interpreter),
        &tools,
        &wheel,
        &folder.join("unpacked-musl"),
    )?;
    Ok(Outcome::Passed)
}

/// Builds a wheel; none if the build fails.
///
/// # Errors
/// If the library in it needs more than its platform has.
fn build(release: &Release<'_>, tools: &Path, platform: &Platform) -> Result<Option<PathBuf>> {
    let target = release.workspace.target()?.join("wheels");
    let out = emptied(target.join(platform.tag))?;
    // maturin looks for zig beside the interpreter that it finds first.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [tools.join("bin")]
        .into_iter()
        .chain(std::env::split_paths(&path));
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin
        .env("PATH", std::env::join_paths(path)?)
        // Two compilers must not share a directory.
        .env(
            "CARGO_TARGET_DIR",
            target.join(format!("build-{}", platform.tag)),
        )
        .args(["build", "--release", "--locked", "--quiet", "--zig"])
        .args(["--compatibility", platform.tag])
        .args(["--target", platform.target, "--out"])
        .arg(&out)
        .arg("--manifest-path")
        .arg(release.workspace.root.join("crates/python/Cargo.toml"));
    if platform.target == MUSL {
        // rustup's compiler may have no standard library for musl, so it is compiled.
        maturin
            .env("RUSTC", bare_metal::DISTRIBUTION_RUSTC)
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["-Z", "build-std=std,panic_unwind"]);
    }
    if !watch::succeeds(maturin.current_dir(&release.workspace.root))? {
        return Ok(None);
    }
    let wheel = python::only_file(&out)?;
    let unpacked = unpack(tools, &wheel, &target.join("judged"))?;
    let library = unpacked.join("carob/_carob.abi3.so");
    let readelf = |what: &str| {
        let mut command = Command::new("readelf");
        process::output(command.args(["--wide", what]).arg(&library)).context(
            "readelf is needed to see what the wheel needs (Debian: `apt-get install binutils`)",
        )
    };
    let needs = Needs::read(&readelf("--dynamic")?, &readelf("--version-info")?);
    println!("{}: {needs:?}", wheel.display());
    ensure!(
        needs.fit(platform),
        "{} needs more than a system of {} has",
        wheel.display(),
        platform.tag
    );
    let kept = (release.folder).join(wheel.file_name().context("a wheel has a name")?);
    fs::copy(&wheel, &kept)?;
    Ok(Some(kept))
}

/// Runs the script with a wheel that is unpacked, not installed: an interpreter may have no pip.
fn run_wheel(interpreter: &Path, tools: &Path, wheel: &Path, folder: &Path) -> Result<()> {
    let unpacked = unpack(tools, wheel, folder)?;
    let mut run = Command::new(interpreter);
    process::must(run.args(["-c", SCRIPT]).env("PYTHONPATH", unpacked))
}

fn unpack(tools: &Path, wheel: &Path, folder: &Path) -> Result<PathBuf> {
    let folder = emptied(folder.to_owned())?;
    let mut command = Command::new(tools.join("bin/python"));
    command.args(["-m", "zipfile", "--extract"]);
    process::must(command.arg(wheel).arg(&folder))?;
    Ok(folder)
}

/// The folder, without what an earlier check left there.
fn emptied(folder: PathBuf) -> Result<PathBuf> {
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    Ok(folder)
}

/// Shared libraries that a library needs, and its greatest version of glibc.
#[derive(Debug, PartialEq, Eq)]
struct Needs {
    libraries: Vec<String>,
    glibc: Option<(u32, u32)>,
}

impl Needs {
    /// Reads the tables of `readelf --wide --dynamic` and `--version-info`.
    fn read(dynamic: &str, versions: &str) -> Self {
        let libraries = dynamic
            .lines()
            .filter(|line| line.contains("(NEEDED)"))
            .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()))
            .collect();
        let version = |word: &str| {
            let mut numbers = word.strip_prefix("GLIBC_")?.split('.').map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        };
        Self {
            libraries,
            glibc: versions.split_whitespace().filter_map(version).max(),
        }
    }

    /// Returns true if a system of the platform has all of it.
    fn fit(&self, platform: &Platform) -> bool {
        !self.libraries.is_empty()
            && (self.libraries.iter()).all(|name| platform.libraries.contains(&name.as_str()))
            && self.glibc <= platform.glibc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(libraries: &[&str], glibc: Option<(u32, u32)>) -> Needs {
        Needs {
            libraries: libraries.iter().map(ToString::to_string).collect(),
            glibc,
        }
    }

    #[test]
    fn a_library_s_needs_are_read_as_readelf_prints_them() {
        let dynamic = " 0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n\
                       \x200x000000000000000e (SONAME)  Library soname: [lib_carob.so]\n\
                       \x200x0000000000000001 (NEEDED)  Shared library: [libgcc_s.so.1]\n";
        let versions = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 3\n\
                        \x20 0x0020:   Name: GLIBC_2.2.5  Flags: none  Version: 2\n\
                        \x20 0x0030:   Name: GLIBC_2.14  Flags: none  Version: 5\n\
                        \x20 0x0040:   Name: GCC_3.3  Flags: none  Version: 4\n";
        assert_eq!(
            Needs::read(dynamic, versions),
            needs(&["libc.so.6", "libgcc_s.so.1"], Some((2, 14)))
        );
    }

    #[test]
    fn a_wheel_that_needs_more_than_its_platform_is_refused() {
        assert!(needs(&["libc.so.6"], Some((2, 17))).fit(&OLDER_GLIBC));
        assert!(!needs(&["libc.so.6"], Some((2, 18))).fit(&OLDER_GLIBC));
        assert!(!needs(&["libc.so.6", "libssl.so.3"], Some((2, 2))).fit(&OLDER_GLIBC));
        assert!(needs(&["libc.so"], None).fit(&WITH_MUSL));
        assert!(!needs(&["libc.so.6"], Some((2, 2))).fit(&WITH_MUSL));
        assert!(!needs(&[], None).fit(&WITH_MUSL));
    }
}
