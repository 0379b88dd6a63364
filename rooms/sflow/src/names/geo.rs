//! Files in MaxMind's format: countries and autonomous systems by address.
//!
//! A file is read into memory, not mapped: one that is replaced or cut while it is mapped would end the program.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use maxminddb::{PathElement, Reader};

/// An open file.
#[derive(Debug)]
pub struct Geo {
    reader: Reader<Vec<u8>>,
}

/// What a country file says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// ISO 3166 code, e.g. `CH`.
    pub code: &'a str,
    /// English name; `None`: the file has none.
    pub name: Option<&'a str>,
}

/// What an AS file says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System<'a> {
    /// Number of the autonomous system.
    pub number: u32,
    /// Who runs it; `None`: the file does not say.
    pub name: Option<&'a str>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GeoError {
    /// It cannot be read.
    #[error("read {}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is of another format, or damaged.
    #[error("{}: no MaxMind DB file, or a damaged one ({error}): fetch it again", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What the reader says.
        error: String,
    },
}

impl Geo {
    /// Reads a file whole.
    ///
    /// # Errors
    /// The file cannot be read, is of another format, or is damaged where that can be seen without reading every address.
    pub fn open(path: &Path) -> Result<Geo, GeoError> {
        let bytes = fs::read(path).map_err(|error| GeoError::Read { path: path.to_owned(), error })?;
        Geo::parse(bytes).map_err(|error| GeoError::Damaged { path: path.to_owned(), error })
    }

    fn parse(bytes: Vec<u8>) -> Result<Geo, String> {
        let one_line = |error: maxminddb::MaxMindDbError| error.to_string().replace('\n', " ");
        let reader = Reader::from_source(bytes).map_err(one_line)?;
        Ok(Geo { reader })
    }

    /// The country of an address; of a file without countries, and of an address in none of them, `None`.
    pub fn country(&self, ip: IpAddr) -> Option<Place<'_>> {
        let found = self.reader.lookup(ip).ok()?;
        let text = |path: &[PathElement<'_>]| found.decode_path::<&str>(path).ok().flatten();
        let key = PathElement::Key;
        let (at, code) = ["country", "registered_country"]
            .into_iter()
            .find_map(|at| text(&[key(at), key("iso_code")]).map(|code| (at, code)))?;
        Some(Place { code, name: text(&[key(at), key("names"), key("en")]) })
    }

    /// The autonomous system of an address; of a file without such, and of an address in none of them, `None`.
    pub fn system(&self, ip: IpAddr) -> Option<System<'_>> {
        let found = self.reader.lookup(ip).ok()?;
        let number = found.decode_path(&[PathElement::Key("autonomous_system_number")]).ok().flatten()?;
        let name = found.decode_path(&[PathElement::Key("autonomous_system_organization")]).ok().flatten();
        Some(System { number, name })
    }
}
