//! What is kept over a restart, where that is asked for: definitions that were put at run time; agents with their sequences, totals
//! and samplers, so that the first sample after it gives a rate over the gap, and what was lost meanwhile is counted.
//!
//! ```text
//! weir sflow state 5\n  Header  Some(Kept) ... Some(Kept) None  CRC-32 of all before it
//! ```
//!
//! Moments are of a clock that begins with the machine: agents that another boot has known are not taken over.

mod keeper;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_program::{clock, files};

use crate::config::Settings;
use crate::shard::{Kept, Now, Put, Shards};

pub(crate) use keeper::Keeper;

/// What is there besides the agents.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Of the machine; `None`: the kernel does not tell.
    boot: Option<u64>,
    /// When it was written, as agents have their moments.
    written: u64,
    /// [`Put`], as JSON.
    definitions: String,
}

/// What came of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Restored {
    agents: u64,
    /// Not heard by now, or there is no room.
    left_out: u64,
    /// Whether its agents are of another boot.
    foreign: bool,
    /// Definitions that are refused by now, and why.
    refused: Vec<String>,
}

/// Whether a state can be kept in a file.
///
/// # Errors
/// Why not, in one line.
pub(crate) fn writable(path: &Path) -> Result<(), String> {
    files::writable(path).map_err(|error| format!("{}: {error} (it could not be written there)", path.display()))
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// Those of [`files::replace`]; the file of before stays.
fn write(path: &Path, shards: &Shards, put: &Put) -> io::Result<()> {
    let header =
        Header { boot: clock::boot_id(), written: Now::read().nanos, definitions: serde_json::to_string(put)? };
    files::replace(path, |file| {
        let mut sum = crc32fast::Hasher::new();
        let mut add = |bytes: &[u8]| {
            sum.update(bytes);
            file.write_all(bytes)
        };
        add(format!("{MAGIC}{VERSION}\n").as_bytes())?;
        add(&encoded(&header)?)?;
        shards.keep(&mut add)?;
        add(&encoded(&None::<()>)?)?;
        file.write_all(&sum.finalize().to_le_bytes())
    })
}

/// Defines and knows again what a file has; `None`: there is no file.
///
/// # Errors
/// Why it is none of ours, damaged or of another version; nothing of it is taken then.
fn restore(path: &Path, shards: &Shards, settings: &Settings) -> Result<Option<Restored>, String> {
    let Some(bytes) = files::read(path, u64::MAX / 2).map_err(|error| error.to_string())? else { return Ok(None) };
    let mut rest = payload(&bytes)?;
    let header: Header = decoded(&mut rest)?;
    let put = serde_json::from_str(&header.definitions).map_err(|error| format!("damaged: {error}"))?;
    let foreign = header.boot.is_none() || header.boot != clock::boot_id() || header.written > Now::read().nanos;
    let mut restored = Restored { foreign, ..Restored::default() };
    while let Some(kept) = decoded::<Option<Kept>>(&mut rest)?.filter(|_| !foreign) {
        match shards.take_over(kept) {
            true => restored.agents += 1,
            false => restored.left_out += 1,
        }
    }
    restored.refused = shards.put_again(put, settings);
    Ok(Some(restored))
}

/// Reads a file's bytes to the end, and takes nothing of it over.
///
/// # Errors
/// As those of [`restore`].
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let mut rest = payload(bytes)?;
    let header: Header = decoded(&mut rest)?;
    serde_json::from_str::<Put>(&header.definitions).map_err(|error| format!("damaged: {error}"))?;
    while decoded::<Option<Kept>>(&mut rest)?.is_some() {}
    Ok(())
}

/// What is between the first line and the checksum.
fn payload(bytes: &[u8]) -> Result<&[u8], String> {
    let end = bytes.iter().take(MAGIC.len() + 11).position(|&byte| byte == b'\n').ok_or(STRANGE)?;
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| STRANGE)?;
    let version: u32 = line.strip_prefix(MAGIC).and_then(|version| version.parse().ok()).ok_or(STRANGE)?;
    if version != VERSION {
        return Err(format!("version {version}, written by another weir: this one reads {VERSION}"));
    }
    match bytes.split_last_chunk() {
        Some((all, sum)) if all.len() > end && crc32fast::hash(all) == u32::from_le_bytes(*sum) => Ok(&all[end + 1..]),
        _ => Err("damaged: its checksum is wrong".into()),
    }
}

fn encoded<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(value).map_err(io::Error::other)
}

fn decoded<'a, T: Deserialize<'a>>(rest: &mut &'a [u8]) -> Result<T, String> {
    let (value, behind) = postcard::take_from_bytes(rest).map_err(|error| format!("damaged: {error}"))?;
    *rest = behind;
    Ok(value)
}

/// How the first line begins.
const MAGIC: &str = "weir sflow state ";

const VERSION: u32 = 6;

const STRANGE: &str = "it is no state of weir sflow";
