use super::*;
use crate::fixture;
use crate::record::Manifest;

const AXES: [&str; 2] = ["path.loss", "size"];

fn claim(keys: &str) -> Claim {
    toml::from_str(keys).unwrap()
}

/// The place as a person writes it, and what is said.
fn told(asked: Asked<'_>) -> (String, String) {
    let Mistake { path, said } = Asked { axes: &AXES, ..asked }.check().unwrap_err();
    (path, said)
}

#[test]
fn claims_that_nothing_decides_are_refused_in_one_line() {
    let good = "column = \"connect_ms\"\nat_most = 1\nwhere = { size = 1, \"path.loss\" = \"1%\", valid = \"true\" }";
    Asked { asserts: &[claim(good)], axes: &AXES, ..Asked::default() }.check().unwrap();
    let cases = [
        (
            "column",
            "column = \"mbit_per_sec\"\nat_most = 1",
            "column: no column `mbit_per_sec`, did you mean `mbit_per_s`?",
        ),
        ("column", "column = \"transport\"\nat_most = 1", "column: `transport` is text. Choose a numeric column."),
        ("", "column = \"sent\"", "needs a bound: `at_least`, `at_most` or both"),
        (
            "at_least",
            "column = \"sent\"\nat_least = 2\nat_most = 1",
            "at_least = 2 is more than at_most = 1. Swap them.",
        ),
        (
            "where",
            "column = \"sent\"\nat_least = 1\nwhere = { transprot = 1 }",
            "where: no column `transprot`, did you mean `transport`?",
        ),
        (
            "where",
            "column = \"sent\"\nat_least = 1\nwhere = { loss_pct = \"5%\" }",
            "where: loss_pct = \"5%\": write a number without quotes and unit, in %",
        ),
        ("at_most", "column = \"sent\"\nat_most = nan", "at_most = NaN: must be a number"),
        (
            "confidence",
            "column = \"sent\"\nat_most = 1\nconfidence = 95",
            "confidence = 95: must be between 0 and 1, e.g. 0.95",
        ),
        (
            "min_duration_s",
            "column = \"sent\"\nat_most = 1\nmin_duration_s = -1",
            "min_duration_s: must be a number of seconds, 0 or more",
        ),
        (
            "at_most",
            "column = \"lost_share\"\nat_most = 5",
            "at_most = 5: `lost_share` is a fraction of 1. Write 0.05 for 5 %.",
        ),
        (
            "relative_to",
            "column = \"sent\"\nat_most = 1\nwhere = { size = 1 }\nrelative_to = { size = 1 }",
            "relative_to: the same cells as in `where`, so the ratio is always 1",
        ),
    ];
    for (key, keys, said) in cases {
        let (place, found) = told(Asked { asserts: &[claim(keys)], ..Asked::default() });
        assert_eq!(found, format!("assert 1: {said}"));
        assert_eq!(place, format!("assert[0].{key}"));
    }
    let twice = [1, 2].map(|bound| claim(&format!("name = \"n\"\ncolumn = \"sent\"\nat_most = {bound}")));
    let (place, said) = told(Asked { claims: &twice, ..Asked::default() });
    assert_eq!(
        (place.as_str(), said.as_str()),
        ("claims[1].name", "claim `n`: another one has the same text. Choose another.")
    );
}

#[test]
fn charts_that_cannot_be_drawn_are_refused() {
    let Manifest { charts, claims, published, .. } = fixture::manifest();
    Asked { charts: &charts, claims: &claims, published: published.as_ref(), ..Asked::default() }.check().unwrap();
    let first = charts[0].clone();
    let refused = |chart: Chart| told(Asked { charts: &[chart], ..Asked::default() });
    let (place, said) = refused(Chart { y: "delay_meen_us".into(), ..first.clone() });
    let expected = "chart throughput: y: no column `delay_meen_us`, did you mean `delay_mean_us`?";
    assert_eq!((place.as_str(), said.as_str()), ("charts[0].y", expected));
    let (_, said) = refused(Chart { y: "transport".into(), ..first.clone() });
    assert!(said.ends_with("`transport` is text. Choose a numeric column."));
    let (place, said) = told(Asked { charts: &[first.clone(), first.clone()], ..Asked::default() });
    assert!(place == "charts[1].name" && said.ends_with("another chart has this name. Choose another."));
    // A column of the scenario is one.
    let own = [OwnColumn { name: "found_pct".into(), ..OwnColumn::default() }];
    let chart = Chart { y: "found_pct".into(), ..first };
    Asked { charts: &[chart], columns: &own, ..Asked::default() }.check().unwrap();
}

#[test]
fn published_points_are_over_columns() {
    let of = |point: &str| -> Published {
        toml::from_str(&format!("source = \"s\"\npoints = [{{ sent = 1 }}, {{ {point} }}]")).unwrap()
    };
    let good = of("transport = \"udp\", loss_pct = 3, \"path.loss\" = \"3%\"");
    Asked { published: Some(&good), axes: &AXES, ..Asked::default() }.check().unwrap();
    let (place, said) = told(Asked { published: Some(&of("losspct = 3")), ..Asked::default() });
    let expected = "published.points[1]: no column `losspct`, did you mean `loss_pct`?";
    assert_eq!((place.as_str(), said.as_str()), ("published.points[1].", expected));
}
