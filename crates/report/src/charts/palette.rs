//! Colours for quantities: perceptually even, safe for any colour vision, with readable text on them.

/// A colour, 0 to 1 each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rgb([f64; 3]);

/// From low (pale green) over blue to high (near black): Waskom's *mako*, whose lightness falls evenly.
const SEQUENTIAL: [(f64, u32); 9] = [
    (0.0, 0xdef5e5),
    (0.2, 0x60ceac),
    (0.25, 0x49c1ad),
    (0.4, 0x3497a9),
    (0.5, 0x357ba2),
    (0.6, 0x395d9c),
    (0.75, 0x3e356b),
    (0.8, 0x382a54),
    (1.0, 0x0b0405),
];

/// The colours of many ordered lines, readable on light and dark ground: amber, red, violet, blue.
const ORDER: [(f64, u32); 4] = [(0.0, 0xd98e04), (0.35, 0xd1495b), (0.7, 0x8a56c9), (1.0, 0x2f7fd1)];

impl Rgb {
    /// Low at 0, high at 1. The darkest end is left out: it is almost black.
    pub(super) fn sequential(place: f64) -> Self {
        Self::between(&SEQUENTIAL, place.clamp(0.0, 1.0) * 0.88)
    }

    /// The first of many lines at 0, the last at 1.
    pub(super) fn ordered(place: f64) -> Self {
        Self::between(&ORDER, place.clamp(0.0, 1.0))
    }

    /// As `#rrggbb`.
    pub(super) fn hex(self) -> String {
        let [r, g, b] = self.0.map(|part| (part.clamp(0.0, 1.0) * 255.0).round() as u8);
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    /// Black or white, whichever is more readable on it: a contrast of at least 4.5 (WCAG 2.1, 1.4.3).
    pub(super) fn ink(self) -> &'static str {
        if self.luminance() > 0.179 { "#000000" } else { "#ffffff" }
    }

    /// Relative luminance as WCAG 2.1 defines it.
    fn luminance(self) -> f64 {
        let [r, g, b] = self.0.map(linear);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// Linear between the stops, which are close together.
    fn between(stops: &[(f64, u32)], place: f64) -> Self {
        let place = if place.is_nan() { 0.0 } else { place };
        let after = stops.iter().position(|(at, _)| *at >= place).unwrap_or(stops.len() - 1).max(1);
        let ((from, first), (to, second)) = (stops[after - 1], stops[after]);
        let share = ((place - from) / (to - from)).clamp(0.0, 1.0);
        let (a, b) = (rgb(first), rgb(second));
        Self([0, 1, 2].map(|i| a[i] + (b[i] - a[i]) * share))
    }
}

fn rgb(hex: u32) -> [f64; 3] {
    [16, 8, 0].map(|shift| f64::from(hex >> shift & 0xff) / 255.0)
}

fn linear(part: f64) -> f64 {
    if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> impl Iterator<Item = f64> {
        (0..=100).map(|i| f64::from(i) / 100.0)
    }

    #[test]
    fn stops_are_met() {
        assert_eq!(Rgb::sequential(0.0).hex(), "#def5e5");
    }

    #[test]
    fn lightness_falls_evenly() {
        let light: Vec<f64> = steps().map(|place| Rgb::sequential(place).luminance().cbrt()).collect();
        let mean = (light[0] - light[100]) / 100.0;
        for pair in light.windows(2) {
            let step = pair[0] - pair[1];
            assert!((0.5 * mean..1.6 * mean).contains(&step), "{step} {mean}");
        }
    }

    #[test]
    fn ordered_lines_read_on_white_and_on_dark_ground() {
        let dark = Rgb(rgb(0x161b22)).luminance();
        for colour in steps().map(Rgb::ordered) {
            let own = colour.luminance();
            assert!(1.05 / (own + 0.05) >= 2.5 && (own + 0.05) / (dark + 0.05) >= 3.0, "{}", colour.hex());
        }
    }

    #[test]
    fn ink_reads_on_every_colour() {
        for colour in steps().map(Rgb::sequential) {
            let ground = colour.luminance();
            let contrast = if colour.ink() == "#000000" { (ground + 0.05) / 0.05 } else { 1.05 / (ground + 0.05) };
            assert!(contrast >= 4.5, "{} {contrast}", colour.hex());
        }
    }
}
