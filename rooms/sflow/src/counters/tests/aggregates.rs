use super::super::Aggregate;

/// By hand, of 2 4 4 4 5 5 7 9: mean 5, variance 4.
#[test]
fn each_has_its_definition() {
    let values = [9.0, 2.0, 4.0, 5.0, 4.0, 7.0, 5.0, 4.0];
    let answers = [9.0, 2.0, 40.0, 5.0, 4.0, 2.0, 4.5, 4.0, 5.5, 1.5, 9.0];
    for ((name, aggregate), answer) in Aggregate::ALL.into_iter().zip(answers) {
        assert_eq!((name.parse(), aggregate.of(values.into_iter())), (Ok(aggregate), Some(answer)), "{name}");
        assert_eq!(aggregate.of(std::iter::empty()), None, "{name}");
    }
    assert_eq!("mean".parse::<Aggregate>(), Err(()));
}
