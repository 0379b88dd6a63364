//! Lists that are filled anew for each batch, without a new allocation.

/// The memory of a list, for items that live differently long: collecting in place allocates nothing.
pub(super) fn recycle<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    list.into_iter().filter_map(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use super::*;

    #[test]
    fn lists_keep_their_memory() {
        let bytes = [0; 8];
        let mut list = vec![IoSlice::new(&bytes); 100];
        list.reserve(1_000);
        let (at, room) = (list.as_ptr() as usize, list.capacity());
        let again: Vec<IoSlice<'static>> = recycle(list);
        assert_eq!((again.as_ptr() as usize, again.capacity(), again.len()), (at, room, 0));
    }
}
