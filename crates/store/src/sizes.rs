//! The sizes of results, which the database computes without reading vectors.
//!
//! A size is about the number of bytes of a result as JSON text. What the program builds from the rows takes no more memory:
//! a vector takes a third of its text, and a JSON tree eight times its text, which is counted.

/// SQL for the size of a stored tree of JSON.
macro_rules! tree_size {
    ($column:literal) => {
        concat!("8 * coalesce(octet_length(CAST(", $column, " AS text)), 0)")
    };
}

/// SQL for the size of the scan with an id. It is 0 if there is none.
macro_rules! scan_size {
    ($id:literal) => {
        concat!(
            "(coalesce((SELECT sum(512 + 12 * coalesce(e.dim, 0) + ",
            $crate::sizes::tree_size!("f.results"),
            ") FROM faces f LEFT JOIN embeddings e ON e.face_id = f.id WHERE f.scan_id = ",
            $id,
            "), 0) + coalesce((SELECT 12 * v.dim FROM image_embeddings v WHERE v.scan_id = ",
            $id,
            "), 0))"
        )
    };
}

pub(crate) use {scan_size, tree_size};

/// Returns how many of the first results with these sizes have at most `limit` bytes together. The first one always counts.
pub(crate) fn count_within(limit: u64, sizes: impl IntoIterator<Item = i64>) -> usize {
    let mut total: u64 = 0;
    let ends = sizes.into_iter().map(|size| {
        total = total.saturating_add(size.unsigned_abs());
        total
    });
    let fits = |(place, end): &(usize, u64)| *place == 0 || *end <= limit;
    ends.enumerate().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::count_within;

    #[test]
    fn results_are_counted_up_to_the_limit() {
        for (limit, sizes, expected) in [
            (10, &[][..], 0),
            (10, &[4, 6, 1], 2),
            (10, &[4, 7, 1], 1),
            (10, &[11, 0], 1),
            (0, &[i64::MAX, i64::MAX], 1),
            (u64::MAX, &[i64::MAX, i64::MAX, i64::MAX], 3),
        ] {
            let count = count_within(limit, sizes.iter().copied());
            assert_eq!(count, expected, "{limit} {sizes:?}");
        }
    }
}
