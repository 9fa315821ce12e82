//! Tar archives of a few regular files (POSIX.1-2017 pax, the ustar format), the same bytes each time.

use anyhow::{Result, bail, ensure};

const BLOCK: usize = 512;

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Relative path of at most 100 bytes.
    pub(super) name: String,
    /// Permission bits.
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

/// The archive of these files: owner 0, time 0.
pub(super) fn write(entries: &[Entry]) -> Result<Vec<u8>> {
    let mut archive = Vec::new();
    for Entry { name, mode, bytes } in entries {
        ensure!(name.len() <= 100, "{name}: a name has at most 100 bytes");
        let mut header = [0_u8; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        put(&mut header[100..108], &format!("{mode:07o}"));
        put(&mut header[108..116], &format!("{:07o}", 0));
        put(&mut header[116..124], &format!("{:07o}", 0));
        put(&mut header[124..136], &format!("{:011o}", bytes.len()));
        put(&mut header[136..148], &format!("{:011o}", 0));
        header[156] = b'0';
        put(&mut header[257..262], "ustar");
        put(&mut header[263..265], "00");
        let sum = checksum(&header);
        put(&mut header[148..155], &format!("{sum:06o}"));
        header[155] = b' ';
        archive.extend_from_slice(&header);
        archive.extend_from_slice(bytes);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

fn put(field: &mut [u8], text: &str) {
    field[..text.len()].copy_from_slice(text.as_bytes());
}

/// Sum of the header's bytes, those of the sum itself as spaces.
fn checksum(header: &[u8; BLOCK]) -> u32 {
    let byte = |(place, byte): (usize, &u8)| match place {
        148..156 => u32::from(b' '),
        _ => u32::from(*byte),
    };
    header.iter().enumerate().map(byte).sum()
}

/// The files of an archive.
///
/// # Errors
/// On a wrong checksum, a type other than a regular file, an absolute path or one with `..`, and an
/// archive that ends early.
pub(super) fn read(archive: &[u8]) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut rest = archive;
    while let Some((header, after)) = rest.split_first_chunk::<BLOCK>() {
        if header.iter().all(|byte| *byte == 0) {
            return Ok(entries);
        }
        let name = text(&header[..100])?;
        ensure!(
            number(&header[148..156])? == checksum(header) as usize,
            "{name}: wrong checksum of the header"
        );
        ensure!(header[156] == b'0', "{name}: not a regular file");
        let outside = name.starts_with('/') || name.split('/').any(|part| part == "..");
        ensure!(!outside, "{name}: outside the archive's root");
        let size = number(&header[124..136])?;
        let Some(bytes) = after.get(..size) else {
            bail!("{name}: the archive ends within it");
        };
        entries.push(Entry {
            name,
            mode: number(&header[100..108])? as u32,
            bytes: bytes.to_vec(),
        });
        rest = after
            .get(size.next_multiple_of(BLOCK)..)
            .unwrap_or_default();
    }
    bail!("the archive has no end")
}

fn text(field: &[u8]) -> Result<String> {
    let end = field
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(field.len());
    Ok(String::from_utf8(field[..end].to_vec())?)
}

/// An octal number.
fn number(field: &[u8]) -> Result<usize> {
    Ok(usize::from_str_radix(text(field)?.trim(), 8)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            name: "usr/bin/carob".to_owned(),
            mode: 0o755,
            bytes: vec![7; 600],
        }
    }

    #[test]
    fn files_come_back_as_they_were() {
        let archive = write(&[entry()]).unwrap();
        assert_eq!(archive.len(), BLOCK + 1024 + 2 * BLOCK);
        assert_eq!(read(&archive).unwrap(), [entry()]);
    }

    #[test]
    fn the_system_s_tar_reads_it() {
        let file = std::env::temp_dir().join(format!("carob-tar-{}.tar", std::process::id()));
        std::fs::write(&file, write(&[entry()]).unwrap()).unwrap();
        let mut command = std::process::Command::new("tar");
        let listed = command.arg("-tvf").arg(&file).output().unwrap();
        std::fs::remove_file(&file).unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        assert!(text.starts_with("-rwxr-xr-x 0/0"), "{text}");
        assert!(
            text.contains(" 600 ") && text.trim().ends_with("usr/bin/carob"),
            "{text}"
        );
    }

    #[test]
    fn damaged_archives_are_refused() {
        let archive = write(&[entry()]).unwrap();
        let mut wrong = archive.clone();
        wrong[0] = b'x';
        assert!(read(&wrong).unwrap_err().to_string().contains("checksum"));
        assert!(read(&archive[..700]).is_err());
        assert!(read(&archive[..BLOCK + 1024]).is_err(), "no end");
        let outside = Entry {
            name: "../carob".to_owned(),
            ..entry()
        };
        assert!(read(&write(&[outside]).unwrap()).is_err());
    }
}
