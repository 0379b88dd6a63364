//! Parsers of flag values.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use weir_units::{Size, Span, UnitError};

/// An address and port, or a host name and port, which is looked up.
pub fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let example = || format!("`{text}`: write ADDRESS:PORT, e.g. 192.0.2.7:5000 or [2001:db8::7]:5000");
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(example)?;
    if host.is_empty() || host.contains(':') || port.parse::<u16>().is_err() {
        return Err(example());
    }
    let found = text.to_socket_addrs().map_err(|error| format!("look up {host}: {error}"))?.next();
    found.ok_or_else(|| format!("look up {host}: no address found"))
}

/// A network or an address. An IPv4 network written as IPv6 (RFC 4291: `::ffff:10.0.0.0/104`) becomes IPv4, like its senders'
/// addresses.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let network = network.map_err(|_| format!("`{text}`: write a network or an address, e.g. 192.0.2.0/24"))?;
    let (address, length) = (network.addr().to_canonical(), network.prefix_len().checked_sub(96));
    let mapped = length.filter(|_| address.is_ipv4()).and_then(|length| IpNet::new(address, length).ok());
    Ok(mapped.unwrap_or(network))
}

/// A duration.
pub(super) fn span(text: &str) -> Result<Duration, UnitError> {
    text.parse().map(Span::duration)
}

/// A duration above 0.
pub fn duration(text: &str) -> Result<Duration, String> {
    match span(text) {
        Ok(Duration::ZERO) => Err(format!("`{text}`: must be longer than 0, e.g. 60s")),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// A number above 0.
pub fn one_or_more<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}`: write 1 or more"))
}

/// A number of bytes.
pub(super) fn bytes(text: &str) -> Result<usize, UnitError> {
    text.parse().map(|size: Size| usize::try_from(size.bytes).unwrap_or(usize::MAX))
}

/// The size of a socket buffer: the kernel doubles it in an int.
pub(super) fn buffer(text: &str) -> Result<usize, UnitError> {
    bytes(text).map(|bytes| bytes.min(i32::MAX as usize / 2))
}

/// A DSCP by number or name: RFC 2474 (cs), 2597 (af), 3246 (ef), 5865 (va), 8622 (le).
pub(super) fn code_point(text: &str) -> Result<u8, String> {
    let digits = |from: usize| text.get(from..).and_then(|digits| digits.parse::<u8>().ok());
    let point = match text.to_ascii_lowercase().as_str() {
        "ef" => Some(46),
        "va" => Some(44),
        "le" => Some(1),
        "default" => Some(0),
        name if name.starts_with("cs") && name.len() == 3 => {
            digits(2).filter(|class| *class < 8).map(|class| class * 8)
        }
        name if name.starts_with("af") && name.len() == 4 => digits(2)
            .map(|number| (number / 10, number % 10))
            .filter(|(class, drop)| (1..=4).contains(class) && (1..=3).contains(drop))
            .map(|(class, drop)| class * 8 + drop * 2),
        number => number.parse().ok().filter(|point| *point < 64),
    };
    point.ok_or_else(|| format!("`{text}`: write a DSCP, 0 to 63, or its name, e.g. ef, af41, cs1 or le"))
}

/// The defaults of a type, with these flags.
pub(super) fn defaults<T: clap::Args>(flags: [&str; 2]) -> T {
    let command = T::augment_args(clap::Command::new("")).no_binary_name(true);
    let matches = command.try_get_matches_from(flags);
    matches.and_then(|matches| T::from_arg_matches(&matches)).expect("defaults are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_point_has_a_number_and_perhaps_a_name() {
        let named = [("0", 0), ("63", 63), ("ef", 46), ("AF11", 10), ("af43", 38), ("cs0", 0), ("cs7", 56), ("le", 1)];
        for (text, expected) in named {
            assert_eq!(code_point(text), Ok(expected), "{text}");
        }
        for text in ["64", "-1", "cs8", "af14", "af51", "af1", "cs", "express", "a\u{e9}1"] {
            let refusal = format!("`{text}`: write a DSCP, 0 to 63, or its name, e.g. ef, af41, cs1 or le");
            assert_eq!(code_point(text), Err(refusal));
        }
    }

    #[test]
    fn a_duration_is_some_time() {
        assert_eq!(duration("15ms"), Ok(Duration::from_millis(15)));
        for text in ["0", "0s"] {
            assert_eq!(duration(text), Err(format!("`{text}`: must be longer than 0, e.g. 60s")));
        }
        assert_eq!(duration("15"), Err("15".parse::<Span>().unwrap_err().to_string()));
    }

    #[test]
    fn an_endpoint_has_a_port() {
        assert_eq!(endpoint("[::1]:5000"), Ok("[::1]:5000".parse().unwrap()));
        for text in ["192.0.2.7", "::1:5000", ":5000", "host:", "host:99999"] {
            assert_eq!(
                endpoint(text),
                Err(format!("`{text}`: write ADDRESS:PORT, e.g. 192.0.2.7:5000 or [2001:db8::7]:5000"))
            );
        }
    }

    #[test]
    fn a_network_is_an_address_too_and_one_of_ipv4_in_whatever_form() {
        for (text, expected) in [
            ("10.9.0.0/16", "10.9.0.0/16"),
            ("10.9.0.1", "10.9.0.1/32"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("2001:db8::/120", "2001:db8::/120"),
            ("::/0", "::/0"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.9.0.1", "10.9.0.1/32"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(network(text), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in ["10.9.0", "host", "10.9.0.1/33", "10.9.0.1:5000"] {
            let expected = format!("`{text}`: write a network or an address, e.g. 192.0.2.0/24");
            assert_eq!(network(text), Err(expected));
        }
    }
}
