//! One network, brought up to be entered by hand.
