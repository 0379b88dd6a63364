//! Files in MaxMind's format: countries and autonomous systems by address.
//!
//! A file is read into memory, not mapped: one that is replaced or cut while it is mapped would end the program.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Result, anyhow};
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

impl Geo {
    /// Reads a file whole.
    ///
    /// # Errors
    /// The file cannot be read, is of another format, or is damaged where that can be seen without reading every address.
    pub fn open(path: &Path) -> Result<Geo> {
        let shown = path.display();
        let bytes = fs::read(path).map_err(|error| anyhow!("read {shown}: {error}"))?;
        let damaged = |error| anyhow!("{shown}: no MaxMind DB file, or a damaged one ({error}): fetch it again");
        Geo::from_bytes(bytes).map_err(damaged)
    }

    /// Takes what a file holds.
    ///
    /// # Errors
    /// One line: another format, or damage that can be seen without reading every address.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Geo, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        let size = match text.len() {
            length @ ..29 => vec![2 << 5 | length as u8],
            length => vec![2 << 5 | 29, length as u8 - 29],
        };
        [&size[..], text.as_bytes()].concat()
    }

    fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![7 << 5 | entries.len() as u8];
        for (key, value) in entries {
            bytes.extend([text(key), value.clone()].concat());
        }
        bytes
    }

    fn u16(number: u16) -> Vec<u8> {
        [&[5 << 5 | 2][..], &number.to_be_bytes()].concat()
    }

    fn u32(number: u32) -> Vec<u8> {
        [&[6 << 5 | 4][..], &number.to_be_bytes()].concat()
    }

    /// A file by the format's specification (MaxMind DB 2.0): 0.0.0.0/1 has `data`, the rest nothing.
    fn file(data: &[u8]) -> Vec<u8> {
        // One node: on the left the first entry of the data section, on the right nothing.
        let tree = [0, 0, 1 + 16, 0, 0, 1];
        let metadata = map(&[
            ("binary_format_major_version", u16(2)),
            ("binary_format_minor_version", u16(0)),
            ("build_epoch", vec![1, 2, 1]),
            ("database_type", text("Test")),
            ("description", map(&[("en", text("by hand"))])),
            ("ip_version", u16(4)),
            ("languages", [&[1, 4][..], &text("en")].concat()),
            ("node_count", u32(1)),
            ("record_size", u16(24)),
        ]);
        [&tree[..], &[0; 16], data, b"\xab\xcd\xefMaxMind.com", &metadata].concat()
    }

    #[test]
    fn countries_and_systems_are_found() {
        let place = map(&[("iso_code", text("CH")), ("names", map(&[("en", text("Switzerland"))]))]);
        let data = map(&[
            ("country", place),
            ("autonomous_system_number", u32(64_500)),
            ("autonomous_system_organization", text("Example")),
        ]);
        let geo = Geo::from_bytes(file(&data)).unwrap();
        let (inside, outside) = ("10.0.0.1".parse().unwrap(), "200.0.0.1".parse().unwrap());
        assert_eq!(geo.country(inside), Some(Place { code: "CH", name: Some("Switzerland") }));
        assert_eq!(geo.system(inside), Some(System { number: 64_500, name: Some("Example") }));
        assert_eq!((geo.country(outside), geo.system(outside)), (None, None));
        assert_eq!(geo.country("2001:db8::1".parse().unwrap()), None, "a file of IPv4 alone");
        // Files that know less.
        let geo = Geo::from_bytes(file(&map(&[("registered_country", map(&[("iso_code", text("LI"))]))]))).unwrap();
        assert_eq!(geo.country(inside), Some(Place { code: "LI", name: None }));
        assert_eq!(geo.system(inside), None);
    }

    #[test]
    fn a_missing_or_damaged_file_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("asn.mmdb");
        let error = Geo::open(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("read {}: No such file", path.display())), "{error}");
        let whole = file(&map(&[("autonomous_system_number", u32(1))]));
        for length in [0, 10, whole.len() / 2] {
            fs::write(&path, &whole[..length]).unwrap();
            let error = Geo::open(&path).unwrap_err().to_string();
            assert!(
                error.contains("asn.mmdb: no MaxMind DB file, or a damaged one (") && error.ends_with("fetch it again")
            );
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        // Damage that shows only where it is met is no answer, and no panic.
        let ip = "10.0.0.1".parse().unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            if let Ok(geo) = Geo::from_bytes(damaged) {
                let _ = (geo.country(ip), geo.system(ip));
            }
        }
    }
}
