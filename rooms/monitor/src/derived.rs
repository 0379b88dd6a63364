//! Channels that servers make of others, wherever they are shown: what they lack, their inputs lack.

/// The station, and the stream, that they are of where they are made.
pub(crate) const STATION: &str = "derived";

/// Whether a channel is one, where it is made or at whoever has it from a server: that one has put the stream in front of its name.
pub(crate) fn is_one(station: &str, stream: &str, name: &str) -> bool {
    // Behind the last is what it is called itself.
    let mut before = name.rsplit('/').skip(1);
    station == STATION && (stream == STATION || before.any(|stream| stream == STATION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_derived_is_known_after_any_number_of_servers() {
        for (station, stream, name, is) in [
            ("derived", "derived", "power", true),
            ("derived", "view", "derived/power", true),
            ("derived", "second", "view/derived/power", true),
            ("derived", "view", "derived/P/MW", true),
            // A station that is called so.
            ("derived", "display", "power", false),
            ("derived", "view", "full/power", false),
            ("coil", "derived", "derived/power", false),
        ] {
            assert_eq!(is_one(station, stream, name), is, "{station}/{stream}/{name}");
        }
    }
}
