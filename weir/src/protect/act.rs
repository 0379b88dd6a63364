//! What is done about attacks.

use clap::Args;
use ipnet::IpNet;
use weir_protect::config::values::Network;
use weir_units::Span;

use super::client::Client;

/// About one attack.
#[derive(Debug, Args)]
pub(super) struct Of {
    /// Number of the attack, as `weir protect list` has it.
    pub(super) id: u64,
    #[command(flatten)]
    pub(super) client: Client,
}

/// `weir protect extend`.
#[derive(Debug, Args)]
pub(super) struct Extend {
    /// Number of the attack, as `weir protect list` has it.
    pub(super) id: u64,
    /// How long from now on: 30m, 2h.
    #[arg(value_name = "DURATION", value_parser = span)]
    pub(super) span: Span,
    #[command(flatten)]
    pub(super) client: Client,
}

/// `weir protect add`.
#[derive(Debug, Args)]
pub(super) struct Add {
    /// What gets a blackhole: an address or a prefix of a protected group.
    #[arg(value_parser = prefix)]
    pub(super) prefix: IpNet,
    /// For how long: 30m, 2h.
    #[arg(value_name = "DURATION", value_parser = span)]
    pub(super) span: Span,
    #[command(flatten)]
    pub(super) client: Client,
}

/// Whoever writes a number alone here means no milliseconds.
fn span(text: &str) -> Result<Span, String> {
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte != b'0');
    if is_bare {
        return Err(format!("`{text}`: a duration needs a unit, e.g. {text}m or {text}h"));
    }
    let span = text.parse::<Span>().map_err(|why| why.to_string())?;
    // Seconds are what the service takes.
    let is_enough = span.duration().as_secs() > 0;
    is_enough.then_some(span).ok_or_else(|| format!("`{text}`: less than a second: write e.g. 30m or 2h"))
}

fn prefix(text: &str) -> Result<IpNet, String> {
    let network = text.parse::<Network>();
    let network = network.map_err(|_| "write a prefix or an address, e.g. 192.0.2.7 or 2001:db8::/64".to_owned())?;
    network.whole().map_err(|what| format!("it {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_is_asked_for_its_unit_in_minutes_and_hours() {
        assert_eq!(span("7").unwrap_err(), "`7`: a duration needs a unit, e.g. 7m or 7h");
        assert_eq!(span("7m").unwrap().duration().as_secs(), 420);
        assert!(span("soon").is_err() && span("").is_err());
    }

    #[test]
    fn less_than_a_second_is_refused_as_it_is_written() {
        for text in ["500ms", "999us"] {
            assert_eq!(span(text).unwrap_err(), format!("`{text}`: less than a second: write e.g. 30m or 2h"));
        }
        assert_eq!(span("1s").unwrap().duration().as_secs(), 1);
    }
}
