//! Which lengths occur among some texts, so that lookups of others can be left out.

/// A set of small numbers.
#[derive(Debug, Default)]
pub(super) struct Lengths {
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

    #[inline]
    pub(super) fn contains(&self, length: usize) -> bool {
        self.words.get(length / 64).is_some_and(|word| word >> (length % 64) & 1 == 1)
    }
}
