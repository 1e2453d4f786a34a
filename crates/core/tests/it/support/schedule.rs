//! Seeded choices: one seed is one order of events.

use std::collections::BTreeMap;

use settle_core::record::Record;

/// SplitMix64: small, and the same everywhere.
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The records of a topic as a consumer may get them: each partition in its order, the partitions
/// interleaved in stretches of up to 20.
pub fn interleaved<'a>(records: &'a [Record], seeded: &mut Seeded) -> Vec<&'a Record> {
    let mut lanes: BTreeMap<i32, std::collections::VecDeque<&Record>> = BTreeMap::new();
    for record in records {
        lanes.entry(record.partition.number).or_default().push_back(record);
    }
    let mut lanes: Vec<_> = lanes.into_values().collect();
    let mut mixed = Vec::with_capacity(records.len());
    while !lanes.is_empty() {
        let at = seeded.below(lanes.len());
        for _ in 0..=seeded.below(20) {
            mixed.extend(lanes[at].pop_front());
        }
        if lanes[at].is_empty() {
            lanes.swap_remove(at);
        }
    }
    mixed
}
