//! Quantities with a unit: `150ms`, `1gbit`, `4MiB`, `5%`. In configuration and on the command line the unit is never
//! optional (except for 0).
