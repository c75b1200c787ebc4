//! What is durable, and what a loss of power may leave of the rest.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::random::Random;
use crate::trace::Step;

/// What a disk writes whole or not at all. SQLite counts on no more, and on its neighbours being left alone
/// (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).
const SECTOR: usize = 512;

/// The state of a folder's files on a disk, as far as a recording has come.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    files: Vec<File>,
    /// What a process would see.
    seen: BTreeMap<Arc<str>, usize>,
    /// What is there after any loss.
    kept: BTreeMap<Arc<str>, usize>,
    /// What leads from one to the other.
    renamed: Vec<(Arc<str>, Option<usize>)>,
}

#[derive(Clone, Debug, Default)]
struct File {
    kept: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize { size: usize },
}

/// What happens to that which was not synced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Loss {
    /// All of it is lost.
    All,
    /// Nothing is: the power went when the last write had just arrived.
    Nothing,
    /// The first writes arrived, one is torn, the rest is lost.
    Torn,
    /// The last writes arrived, one is torn, those before are lost.
    Reordered,
    /// Each sector arrived or did not.
    Scattered,
}

impl Loss {
    /// Each kind.
    pub const EACH: [Loss; 5] = [Loss::All, Loss::Nothing, Loss::Torn, Loss::Reordered, Loss::Scattered];
}

/// The files of a folder after a loss of power.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// By their names.
    pub files: BTreeMap<Arc<str>, Vec<u8>>,
    /// Sectors that had been written and not synced, and arrived.
    pub arrived: usize,
    /// Likewise, and did not.
    pub lost: usize,
}

impl Disk {
    /// Whatever is in `folder`, as durable.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(folder: &Path) -> io::Result<Disk> {
        let mut disk = Disk::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name: Arc<str> = entry.file_name().to_string_lossy().into();
            disk.files.push(File { kept: fs::read(entry.path())?, pending: vec![] });
            disk.seen.insert(name, disk.files.len() - 1);
        }
        disk.kept = disk.seen.clone();
        Ok(disk)
    }

    /// The disk after one more step.
    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Create { name } => {
                self.files.push(File::default());
                self.rename(name, Some(self.files.len() - 1));
            }
            Step::Delete { name } => self.rename(name, None),
            Step::Write { name, offset, bytes } => {
                self.change(name, Change::Write { offset: *offset, bytes: bytes.clone() });
            }
            Step::Resize { name, size } => self.change(name, Change::Resize { size: *size }),
            Step::Sync { name } => {
                if let Some(file) = self.seen.get(name) {
                    self.files[*file].settle();
                }
            }
            Step::SyncFolder => {
                self.renamed.clear();
                self.kept = self.seen.clone();
            }
        }
    }

    /// Whether anything could be lost.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.renamed.is_empty() && self.seen.values().all(|file| self.files[*file].pending.is_empty())
    }

    /// The files as a process sees them that goes on after the one before it was killed: the system still has
    /// everything.
    #[must_use]
    pub fn visible(&self) -> Image {
        let files = self.seen.iter().map(|(name, file)| {
            let mut file = self.files[*file].clone();
            file.settle();
            (Arc::clone(name), file.kept)
        });
        Image { files: files.collect(), arrived: 0, lost: 0 }
    }

    /// The files after a loss of power now.
    #[must_use]
    pub fn lose(&self, loss: Loss, random: &mut Random) -> Image {
        let mut image = Image::default();
        let arrived = match loss {
            Loss::All => 0,
            Loss::Nothing => self.renamed.len(),
            // A file system changes names in order.
            Loss::Torn | Loss::Reordered | Loss::Scattered => random.below(self.renamed.len() + 1),
        };
        let mut names = self.kept.clone();
        for (name, file) in &self.renamed[..arrived] {
            match file {
                Some(file) => names.insert(Arc::clone(name), *file),
                None => names.remove(name),
            };
        }
        for (name, file) in names {
            let bytes = self.files[file].lose(loss, random, &mut image);
            image.files.insert(name, bytes);
        }
        image
    }

    fn rename(&mut self, name: &Arc<str>, file: Option<usize>) {
        match file {
            Some(file) => self.seen.insert(Arc::clone(name), file),
            None => self.seen.remove(name),
        };
        self.renamed.push((Arc::clone(name), file));
    }

    fn change(&mut self, name: &Arc<str>, change: Change) {
        if let Some(file) = self.seen.get(name) {
            self.files[*file].pending.push(change);
        }
    }
}

impl File {
    fn settle(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            match change {
                Change::Write { offset, bytes } => put(&mut self.kept, offset, &bytes, None),
                Change::Resize { size } => self.kept.resize(size, 0),
            }
        }
    }

    fn lose(&self, loss: Loss, random: &mut Random, image: &mut Image) -> Vec<u8> {
        let mut kept = self.kept.clone();
        let torn = random.below(self.pending.len());
        for (index, change) in self.pending.iter().enumerate() {
            // The chance of a sector, of two.
            let chance = match loss {
                Loss::All => 0,
                Loss::Nothing => 2,
                Loss::Torn if index < torn => 2,
                Loss::Reordered if index > torn => 2,
                Loss::Torn | Loss::Reordered if index == torn => 1,
                Loss::Torn | Loss::Reordered => 0,
                Loss::Scattered => 1,
            };
            let mut arrives = || match chance {
                0 => false,
                1 => random.one_in(2),
                _ => true,
            };
            match change {
                Change::Resize { size } => {
                    if arrives() {
                        kept.resize(*size, 0);
                    }
                }
                Change::Write { offset, bytes } => {
                    for (at, piece) in sectors(*offset, bytes) {
                        if arrives() {
                            image.arrived += 1;
                            put(&mut kept, at, piece, Some(loss));
                        } else {
                            image.lost += 1;
                        }
                    }
                }
            }
        }
        kept
    }
}

/// Puts bytes into a file. Where it grows over what never arrived there is what the disk had there before.
fn put(file: &mut Vec<u8>, offset: usize, bytes: &[u8], loss: Option<Loss>) {
    let end = offset + bytes.len();
    if file.len() < end {
        let rubbish = if loss == Some(Loss::Scattered) { 0xa5 } else { 0 };
        file.resize(offset.max(file.len()), rubbish);
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

/// The pieces of a write by the sector that they go to.
fn sectors(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == bytes.len() {
            return None;
        }
        let length = (SECTOR - (offset + at) % SECTOR).min(bytes.len() - at);
        let piece = (offset + at, &bytes[at..at + length]);
        at += length;
        Some(piece)
    })
}

impl Image {
    /// Makes `folder` hold these files and nothing else.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        for (name, bytes) in &self.files {
            fs::write(folder.join(&**name), bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(name: &str, offset: usize, byte: u8, length: usize) -> Step {
        Step::Write { name: name.into(), offset, bytes: vec![byte; length] }
    }

    fn disk(steps: &[Step]) -> Disk {
        let mut disk = Disk::default();
        for step in steps {
            disk.take(step);
        }
        disk
    }

    #[test]
    fn what_was_synced_is_there_after_every_loss() {
        let a: Arc<str> = "a".into();
        let disk = disk(&[
            Step::Create { name: Arc::clone(&a) },
            write("a", 0, 1, 2_000),
            Step::Sync { name: Arc::clone(&a) },
            Step::SyncFolder,
            write("a", 2_000, 2, 100),
        ]);
        for loss in Loss::EACH {
            for seed in 0..50 {
                let image = disk.lose(loss, &mut Random::new(seed));
                assert_eq!(image.files["a"][..2_000], [1; 2_000]);
            }
        }
        assert_eq!(disk.lose(Loss::All, &mut Random::new(0)).files["a"].len(), 2_000);
        assert_eq!(disk.lose(Loss::Nothing, &mut Random::new(0)).files["a"].len(), 2_100);
    }

    #[test]
    fn a_file_whose_name_was_not_synced_may_be_gone() {
        let name: Arc<str> = "a".into();
        let disk =
            disk(&[Step::Create { name: Arc::clone(&name) }, write("a", 0, 1, 10), Step::Sync { name }]);
        assert!(disk.lose(Loss::All, &mut Random::new(0)).files.is_empty());
        assert_eq!(&*disk.visible().files["a"], [1; 10]);
    }

    #[test]
    fn writes_are_torn_between_sectors_and_a_later_one_may_arrive_alone() {
        let name: Arc<str> = "a".into();
        let disk = disk(&[
            Step::Create { name: Arc::clone(&name) },
            write("a", 0, 1, 4_096),
            Step::Sync { name },
            Step::SyncFolder,
            write("a", 0, 2, 2_048),
            write("a", 2_048, 3, 2_048),
        ]);
        let images = |loss| {
            (0..99).map(move |seed| (seed, loss)).map(|(seed, loss)| disk.lose(loss, &mut Random::new(seed)))
        };
        let mut later_alone = 0;
        for image in images(Loss::Reordered) {
            let file = &image.files["a"];
            for sector in file.chunks(SECTOR) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a torn sector");
            }
            later_alone += usize::from(file[0] == 1 && file[4_095] == 3);
        }
        assert!(later_alone > 0);
    }

    #[test]
    fn a_write_is_cut_where_sectors_end() {
        let pieces: Vec<_> = sectors(500, &[0; 600]).map(|(at, piece)| (at, piece.len())).collect();
        assert_eq!(pieces, [(500, 12), (512, 512), (1_024, 76)]);
    }
}
