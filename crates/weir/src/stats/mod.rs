//! Statistics with their n: delay recorders, quantiles that the sample supports, intervals, tests.
