//! A load as files: a capture, and datagrams behind one another.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::load::Load;

/// Writes so many datagrams as a capture (pcap) of Ethernet frames.
pub(crate) fn write(file: &Path, load: &mut Load, datagrams: u32) -> Result<()> {
    let mut out = create(file)?;
    // Magic of microseconds, version 2.4, no time zone, no accuracy, snapshot length, Ethernet.
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        out.write_all(&word.to_ne_bytes())?;
    }
    for number in 0..datagrams {
        let (bytes, _) = load.next(number);
        let length = (bytes.len() + HEADERS) as u32;
        for word in [number / 100_000, number % 100_000 * 10, length, length] {
            out.write_all(&word.to_ne_bytes())?;
        }
        let (ip, udp) = ((bytes.len() + 28) as u16, (bytes.len() + 8) as u16);
        out.write_all(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0])?;
        out.write_all(&ip.to_be_bytes())?;
        out.write_all(&[0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2])?;
        for half in [6343_u16, 6343, udp, 0] {
            out.write_all(&half.to_be_bytes())?;
        }
        out.write_all(bytes)?;
    }
    Ok(out.flush()?)
}

/// Writes so many, each behind its length, 32 bits, little-endian.
pub(crate) fn write_bare(file: &Path, load: &mut Load, datagrams: u32) -> Result<()> {
    let mut out = create(file)?;
    for number in 0..datagrams {
        let (bytes, _) = load.next(number);
        out.write_all(&(bytes.len() as u32).to_le_bytes())?;
        out.write_all(bytes)?;
    }
    Ok(out.flush()?)
}

fn create(file: &Path) -> Result<BufWriter<File>> {
    Ok(BufWriter::new(File::create(file).with_context(|| format!("create {}", file.display()))?))
}

/// Ethernet, IPv4, UDP.
const HEADERS: usize = 14 + 20 + 8;
