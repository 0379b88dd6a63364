//! The datagram engine: UDP sockets that receive and send in batches, with what the kernel offers to make them cheap.
