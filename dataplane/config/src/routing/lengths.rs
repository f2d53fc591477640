//! Which lengths occur among some texts, so that a text is looked up only where one of them ends.

/// A set of lengths.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    /// One bit for each length.
    words: Vec<u64>,
}

impl Lengths {
    pub(super) fn insert(&mut self, length: usize) {
        let word = length / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (length % 64);
    }

    /// The lengths up to and including `most`, from the greatest.
    #[inline]
    pub(super) fn descending_from(&self, most: usize) -> impl Iterator<Item = usize> {
        let (last, bit) = (most / 64, most % 64);
        let words = self.words.iter().enumerate().take(last + 1).rev();
        words.flat_map(move |(at, &word)| {
            let mut rest = if at == last { word & (u64::MAX >> (63 - bit)) } else { word };
            std::iter::from_fn(move || {
                let bit = rest.checked_ilog2()?;
                rest &= !(1 << bit);
                Some(at * 64 + bit as usize)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_come_from_the_greatest_that_is_asked_for() {
        let mut lengths = Lengths::default();
        for length in [0, 3, 63, 64, 200] {
            lengths.insert(length);
        }
        let from = |most| lengths.descending_from(most).collect::<Vec<_>>();
        assert_eq!(from(1000), [200, 64, 63, 3, 0]);
        assert_eq!(from(200), [200, 64, 63, 3, 0]);
        assert_eq!(from(199), [64, 63, 3, 0]);
        assert_eq!(from(63), [63, 3, 0]);
        assert_eq!(from(2), [0]);
        assert_eq!(Lengths::default().descending_from(5).next(), None);
    }
}
