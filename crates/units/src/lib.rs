//! Quantities with a unit: `150ms`, `1gbit`, `4MiB`, `5%`. In configuration and on the command line the unit is never
//! optional (except for 0).
//!
//! Numbers are decimal fractions (`1.5s`) and kept exactly: values finer than the smallest unit are refused, not
//! rounded. Every quantity is printed so that it reads back as the same value.
//!
//! ```
//! use weir_units::{Share, Span};
//!
//! let delay: Span = "1.5ms".parse()?;
//! assert_eq!((delay.nanos, delay.to_string().parse()), (1_500_000, Ok(delay)));
//! assert!("5".parse::<Share>().is_err(), "5 of what?");
//! # Ok::<(), weir_units::UnitError>(())
//! ```

pub mod expression;
pub mod format;
mod kind;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use kind::{BIT_RATE, FREQUENCY, Kind, SHARE, SIZE, SPAN, is_zero};

/// A duration: `150ms`. Whole nanoseconds, at most 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Nanoseconds.
    pub nanos: u64,
}

/// Bits per second: `1gbit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate {
    /// Bits per second.
    pub bits_per_second: u64,
}

/// Bytes: `4MiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
}

/// Times per second: `50k/s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frequency {
    /// Times per million seconds.
    pub micro_hertz: u64,
}

/// A part of a whole: `5%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share {
    fraction: f64,
}

impl Span {
    /// This many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// This many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self { nanos: millis * 1_000_000 }
    }

    /// This many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self { nanos: secs * 1_000_000_000 }
    }

    /// As the standard library's type.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.duration()
    }
}

impl Frequency {
    /// The time from one to the next, rounded to nanoseconds; `None` for 0.
    pub fn interval(self) -> Option<Duration> {
        const MICRO: u128 = 1_000_000 * 1_000_000_000;
        let per = u128::from(self.micro_hertz);
        let nanos = (MICRO + per / 2).checked_div(per)?;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

impl Share {
    /// The whole.
    pub const ALL: Share = Share { fraction: 1.0 };

    /// A share of this fraction. `None`: outside 0 to 1.
    pub fn from_fraction(fraction: f64) -> Option<Self> {
        // Adding 0 turns -0 into 0.
        (0.0..=1.0).contains(&fraction).then_some(Self { fraction: fraction + 0.0 })
    }

    /// 0 to 1.
    pub fn fraction(self) -> f64 {
        self.fraction
    }

    /// 0 to 100: the shortest decimal that means this share.
    pub fn percent(self) -> f64 {
        self.digits().parse().unwrap_or(self.fraction * 100.0)
    }

    /// The percentage in digits that parse to the same fraction.
    fn digits(self) -> String {
        let scientific = format!("{:e}", self.fraction);
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent = exponent.parse::<i32>().unwrap_or(0) + 2;
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let digits = format!("{whole}{part}");
        let point = whole.len() as i32 + exponent;
        if point <= 0 {
            format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize))
        } else if point as usize >= digits.len() {
            format!("{digits}{}", "0".repeat(point as usize - digits.len()))
        } else {
            format!("{}.{}", &digits[..point as usize], &digits[point as usize..])
        }
    }
}

/// The error of a text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a number, or empty.
    #[error("`{text}`: not {noun}; write e.g. {example}")]
    Number {
        /// The text.
        text: String,
        /// The expected quantity.
        noun: &'static str,
        /// A valid example.
        example: &'static str,
    },
    /// A number without a unit.
    #[error("`{text}`: {noun} needs a unit, e.g. {meant}")]
    Missing {
        /// The text.
        text: String,
        /// The expected quantity.
        noun: &'static str,
        /// The number in common units, each of which parses.
        meant: String,
    },
    /// A fraction of 1 instead of a percentage.
    #[error("`{text}`: a share is written in percent, e.g. \"{meant}\"")]
    Fraction {
        /// The text.
        text: String,
        /// The probable meaning.
        meant: String,
    },
    /// A unit that does not exist.
    #[error("`{text}`: no unit `{unit}` for {noun}; use one of {units}")]
    Unknown {
        /// The text.
        text: String,
        /// The unit in it.
        unit: String,
        /// The expected quantity.
        noun: &'static str,
        /// The existing units.
        units: String,
    },
    /// Finer than the smallest step.
    #[error("`{text}`: finer than {least}, the smallest step of {noun}")]
    Fine {
        /// The text.
        text: String,
        /// The smallest step.
        least: &'static str,
        /// The expected quantity.
        noun: &'static str,
    },
    /// More than 64 bits hold.
    #[error("`{text}`: too large for {noun}")]
    Large {
        /// The text.
        text: String,
        /// The expected quantity.
        noun: &'static str,
    },
    /// A share below 0 or above the whole.
    #[error("`{text}`: a share is between 0% and 100%")]
    Share {
        /// The text.
        text: String,
    },
}

/// An error for a configuration file: suggestions are quoted, so that they can be pasted.
struct InFile(UnitError);

impl fmt::Display for InFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |meant: &str| format!("\"{}\"", meant.replace(" or ", "\" or \""));
        match &self.0 {
            UnitError::Number { text, noun, example } => write!(f, "`{text}`: not {noun}; write e.g. \"{example}\""),
            UnitError::Missing { text, noun, meant } => {
                write!(f, "`{text}`: {noun} needs a unit, e.g. {}", quoted(meant))
            }
            UnitError::Share { text } => write!(f, "`{text}`: a share is between \"0%\" and \"100%\""),
            other => other.fmt(f),
        }
    }
}

impl FromStr for Share {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let outside = || UnitError::Share { text: text.to_owned() };
        if let Some(rest) = text.strip_prefix('-')
            && SHARE.split(rest).is_ok()
        {
            return Err(outside());
        }
        let (number, unit) = SHARE.split(text)?;
        let alone = number.parse::<f64>().ok().filter(|number| unit.is_empty() && *number > 0.0);
        if let Some(alone) = alone {
            let (is_part, text) = (number.contains('.'), text.to_owned());
            return Err(match Self::from_fraction(alone) {
                Some(meant) if is_part => UnitError::Fraction { text, meant: meant.to_string() },
                // The whole, or a hundredth of it.
                Some(_) => UnitError::Missing { text, noun: SHARE.noun, meant: "1% or 100%".into() },
                None if alone <= 100.0 => UnitError::Missing { meant: format!("{text}%"), text, noun: SHARE.noun },
                None => outside(),
            });
        }
        SHARE.unit(text, unit, is_zero(number))?;
        // Moving the point in the text instead of dividing leaves one rounding: 5% is the float 0.05.
        let fraction = format!("{number}e-2").parse::<f64>().ok().and_then(Self::from_fraction);
        fraction.ok_or_else(outside)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fraction == 0.0 {
            return f.pad("0");
        }
        f.pad(&format!("{}%", self.digits()))
    }
}

/// Text form of a quantity that is a whole number of smallest steps.
macro_rules! quantity {
    ($type:ident, $field:ident, $kind:ident) => {
        impl FromStr for $type {
            type Err = UnitError;

            fn from_str(text: &str) -> Result<Self, UnitError> {
                Ok(Self { $field: $kind.parse(text)? })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $kind.print(self.$field, f)
            }
        }

        serialized!($type, $kind);
    };
}

/// Configuration form: a string, or the number 0.
macro_rules! serialized {
    ($type:ident, $kind:ident) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = deserializer.deserialize_any(Text(&$kind))?;
                text.parse().map_err(|why| de::Error::custom(InFile(why)))
            }
        }
    };
}

quantity!(Span, nanos, SPAN);
quantity!(BitRate, bits_per_second, BIT_RATE);
quantity!(Size, bytes, SIZE);
quantity!(Frequency, micro_hertz, FREQUENCY);
serialized!(Share, SHARE);

/// Accepts strings, and numbers only for a better error than "invalid type".
struct Text(&'static Kind);

impl de::Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as a string, e.g. \"{}\"", self.0.noun, self.0.example)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        let text = number.to_string();
        // Exactly as written: 1.0 is not 1 if a fraction is meant.
        Ok(if number.fract() == 0.0 { text + ".0" } else { text })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn error<T: FromStr<Err = UnitError>>(text: &str) -> String {
        text.parse::<T>().map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_people_write() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("150ms", 150_000_000),
            ("1.5s", 1_500_000_000),
            (".5us", 500),
            ("10 ms", 10_000_000),
            ("20m", 1_200_000_000_000),
            ("2h", 7_200_000_000_000),
            ("7d", 604_800_000_000_000),
            ("18446744073709551615ns", u64::MAX),
            ("0.1s", 100_000_000),
            ("1.000s", 1_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Span { nanos }), "{text}");
        }
        for (text, bits_per_second) in
            [("1gbit", 1_000_000_000), ("1Gbit/s", 1_000_000_000), ("0.064mbit", 64_000), ("9600bit/s", 9600)]
        {
            assert_eq!(text.parse(), Ok(BitRate { bits_per_second }), "{text}");
        }
        for (text, bytes) in [("1000B", 1000), ("4MiB", 4 << 20), ("64kB", 64_000), ("0.5KiB", 512)] {
            assert_eq!(text.parse(), Ok(Size { bytes }), "{text}");
        }
        for (text, fraction) in [("5%", 0.05), ("0.05%", 0.0005), ("100%", 1.0), ("0", 0.0), ("7 %", 0.07)] {
            assert_eq!(text.parse::<Share>().map(Share::fraction), Ok(fraction), "{text}");
        }
        for (text, micro_hertz) in [("50k/s", 50_000_000_000), ("0.5/s", 500_000), ("100/s", 100_000_000)] {
            assert_eq!(text.parse(), Ok(Frequency { micro_hertz }), "{text}");
        }
    }

    #[test]
    fn prints_the_largest_unit_that_needs_no_fraction() {
        let prints = |nanos| Span { nanos }.to_string();
        assert_eq!(prints(0), "0");
        assert_eq!(prints(1_500_000_000), "1500ms");
        assert_eq!(prints(90_000_000_000), "90s");
        assert_eq!(prints(1_200_000_000_000), "20m");
        assert_eq!(Size { bytes: 1_024_000 }.to_string(), "1000KiB");
        assert_eq!(BitRate { bits_per_second: 1_000_000_000 }.to_string(), "1gbit");
        assert_eq!(Frequency { micro_hertz: 1_500_000 }.to_string(), "1.5/s");
        assert_eq!(Frequency { micro_hertz: 50_000_000_000 }.to_string(), "50k/s");
        assert_eq!("5%".parse::<Share>().unwrap().to_string(), "5%");
        assert_eq!("0.05%".parse::<Share>().unwrap().to_string(), "0.05%");
        assert_eq!("7%".parse::<Share>().unwrap().percent(), 7.0);
    }

    #[test]
    fn errors_name_the_value_and_give_an_example() {
        insta::assert_snapshot!(
            [
                error::<Span>("150"),
                error::<Span>(""),
                error::<Span>("-5ms"),
                error::<Span>("soon"),
                error::<Span>("1.5.2s"),
                error::<Span>("150msec"),
                error::<Span>("1.5ns"),
                error::<Span>("6000000h"),
                error::<Span>("99999999999999999999s"),
                error::<BitRate>("10"),
                error::<BitRate>("10MB"),
                error::<Size>("4M"),
                error::<Frequency>("50k"),
                error::<Share>("120%"),
                error::<Share>("-1%"),
                error::<Share>("0.05"),
                error::<Share>("5 percent"),
            ]
            .join("\n")
        );
    }

    #[test]
    fn configuration_takes_strings_and_the_number_0() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Config {
            delay: Span,
            loss: Share,
        }
        let config: Config = toml::from_str("delay = \"10ms\"\nloss = 0").unwrap();
        assert_eq!(config, Config { delay: Span::from_millis(10), loss: Share::default() });
        assert_eq!(toml::to_string(&config).unwrap(), "delay = \"10ms\"\nloss = \"0\"\n");
        for (loss, told) in [
            ("1", "`1`: a share needs a unit, e.g. \"1%\" or \"100%\""),
            ("1.0", "`1.0`: a share is written in percent, e.g. \"100%\""),
            ("0.05", "`0.05`: a share is written in percent, e.g. \"5%\""),
            ("120", "`120`: a share is between \"0%\" and \"100%\""),
            ("\"much\"", "`much`: not a share; write e.g. \"5%\""),
        ] {
            let error = toml::from_str::<Config>(&format!("delay = 0\nloss = {loss}")).unwrap_err();
            assert_eq!(error.message(), told);
        }
        let error = toml::from_str::<Config>("delay = 10\nloss = 0").unwrap_err();
        assert_eq!(error.message(), "`10`: a duration needs a unit, e.g. \"10ms\" or \"10s\"");
    }

    /// Calls a function for each type that is read with a unit.
    macro_rules! each_quantity {
        ($of:ident($text:expr)) => {
            $of::<Span>($text);
            $of::<BitRate>($text);
            $of::<Size>($text);
            $of::<Frequency>($text);
            $of::<Share>($text);
        };
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(n in prop_oneof![any::<u64>(), (0u64..100_000).prop_map(|n| n * 1_000_000)]) {
            let span = Span { nanos: n };
            prop_assert_eq!(span.to_string().parse(), Ok(span));
            let rate = BitRate { bits_per_second: n };
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            let size = Size { bytes: n };
            prop_assert_eq!(size.to_string().parse(), Ok(size));
            let frequency = Frequency { micro_hertz: n };
            prop_assert_eq!(frequency.to_string().parse(), Ok(frequency));
        }

        #[test]
        fn a_share_is_read_as_printed(
            fraction in prop_oneof![0.0..=1.0f64, (0u32..10_000).prop_map(|n| f64::from(n) / 1e4)],
        ) {
            let share = Share::from_fraction(fraction).unwrap();
            prop_assert_eq!(share.to_string().parse(), Ok(share));
        }

        #[test]
        fn what_is_suggested_for_a_number_alone_is_read(
            number in prop_oneof![any::<u64>(), 1u64..1_000], part in prop_oneof![Just(String::new()), "\\.[0-9]{1,12}"],
        ) {
            fn check<T: FromStr<Err = UnitError>>(text: &str) {
                let Err(error) = text.parse::<T>() else { return };
                let told = error.to_string();
                let suggested = told.rsplit_once("e.g. ").map(|(_, suggested)| suggested.trim_matches('"'));
                for one in suggested.into_iter().flat_map(|suggested| suggested.split(" or ")) {
                    assert!(one.parse::<T>().is_ok(), "{told}");
                }
            }
            let text = format!("{number}{part}");
            each_quantity!(check(&text));
        }

        #[test]
        fn what_is_suggested_in_a_file_may_be_pasted(
            number in prop_oneof![1u64..3, 1u64..1_000_000_000], part in prop_oneof![Just(String::new()), Just(".0".into()), "\\.[0-9]{1,12}"],
        ) {
            fn check<T: de::DeserializeOwned>(text: &str) {
                let read = |value: &str| toml::from_str::<std::collections::BTreeMap<String, T>>(&format!("key = {value}"));
                let Err(error) = read(text) else { return };
                let told = error.message();
                let suggested = told.rsplit_once("e.g. ").map(|(_, suggested)| suggested);
                for one in suggested.into_iter().flat_map(|suggested| suggested.split(" or ")) {
                    assert!(one.starts_with('"') && read(one).is_ok(), "{told}");
                }
            }
            let text = format!("{number}{part}");
            each_quantity!(check(&text));
        }

        #[test]
        fn no_text_panics(text in "[-0-9.]{0,30}[a-zA-Zµ%/ ]{0,6}", any in ".*") {
            for text in [text, any] {
                let _ = (text.parse::<Span>(), text.parse::<BitRate>(), text.parse::<Size>());
                let _ = (text.parse::<Frequency>(), text.parse::<Share>());
            }
        }

        #[test]
        fn fractions_are_exact(whole in 0u64..1000, micros in 0u64..1_000_000) {
            let text = format!("{whole}.{micros:06}s");
            prop_assert_eq!(text.parse(), Ok(Span { nanos: whole * 1_000_000_000 + micros * 1000 }));
        }
    }
}
