//! The page's server, over real sockets.
