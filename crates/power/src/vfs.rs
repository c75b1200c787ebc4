//! The layer between SQLite and its file system.
//!
//! A file of ours is one of SQLite's with a head before it: our methods, and whose notes are taken. Each method
//! passes on what it is given. SQLite keeps to the rules of its interface: a file is used by one thread at a time
//! and not after its end, and its memory is as large as we asked for.
#![expect(unsafe_code, reason = "SQLite takes a file system only as a table of C functions over raw memory")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rusqlite::ffi;

use crate::trace::{Step, Tape};

static TAPES: Mutex<Vec<Arc<Tape>>> = Mutex::new(Vec::new());

/// SQLite's own file system, once ours is before it.
static BELOW: OnceLock<Below> = OnceLock::new();

#[derive(Clone, Copy)]
struct Below(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite registers its file systems for ever, and they are made to be used by all threads.
unsafe impl Send for Below {}
// SAFETY: as above; what it points to is not changed after registration.
unsafe impl Sync for Below {}

/// What comes before SQLite's own file in memory.
#[repr(C)]
struct Head {
    methods: *const ffi::sqlite3_io_methods,
    /// A [`File`], or null where nobody listens.
    file: *mut File,
}

struct File {
    tape: Arc<Tape>,
    name: Arc<str>,
    /// Whether its first sync makes the folder's names durable too, as SQLite does for new logs and journals.
    syncs_folder: bool,
}

/// Begins to take notes on a tape.
pub(crate) fn listen(tape: &Arc<Tape>) {
    BELOW.get_or_init(|| {
        // SAFETY: a null name asks for the default one, which is there in every build of ours.
        let below = unsafe { ffi::sqlite3_vfs_find(null()) };
        assert!(!below.is_null(), "SQLite has no file system");
        // SAFETY: it was just found, and is a table of numbers and functions that may be copied.
        let mut ours = unsafe { *below };
        ours.zName = c"power".as_ptr();
        ours.pNext = null_mut();
        ours.szOsFile += c_int::try_from(size_of::<Head>()).expect("it is small");
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        // SAFETY: leaked, so it is there for ever; the second argument makes it the default.
        let done = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 1) };
        assert_eq!(done, ffi::SQLITE_OK, "SQLite refused the file system");
        Below(below)
    });
    TAPES.lock().push(Arc::clone(tape));
}

/// Opens no more files for a tape.
pub(crate) fn forget(tape: &Arc<Tape>) {
    TAPES.lock().retain(|other| !Arc::ptr_eq(other, tape));
}

fn below() -> *mut ffi::sqlite3_vfs {
    BELOW.get().expect("our functions are called after the registration").0
}

/// Whose notes a file belongs to, and its name in that folder.
fn tape_of(path: &Path) -> Option<(Arc<Tape>, Arc<str>)> {
    let name = path.file_name()?.to_str()?;
    // It comes and goes with its processes; no loss of power makes a difference to it.
    if name.ends_with("-shm") {
        return None;
    }
    let tapes = TAPES.lock();
    let tape = tapes.iter().find(|tape| path.parent() == Some(tape.folder()))?;
    Some((Arc::clone(tape), name.into()))
}

/// # Safety
/// `name` is null or a C string.
unsafe fn path_of<'a>(name: *const c_char) -> Option<&'a Path> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_str().ok().map(Path::new)
}

/// # Safety
/// `file` is one of ours.
unsafe fn head<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Head {
    // SAFETY: the caller's promise; the head comes first.
    unsafe { &mut *file.cast::<Head>() }
}

/// # Safety
/// `file` is one of ours.
unsafe fn noted<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a mut File> {
    // SAFETY: the caller's promise; the pointer is null or made by `open`.
    unsafe { head(file).file.as_mut() }
}

/// # Safety
/// `file` points to as much memory as we asked for.
unsafe fn inner(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: the caller's promise; SQLite's own file comes behind the head, which keeps its alignment.
    unsafe { file.cast::<Head>().add(1).cast() }
}

/// Calls a method of SQLite's own file.
macro_rules! pass {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: the file is one of ours, and SQLite gave us what the method takes.
        unsafe {
            let inner = inner($file);
            match (*(*inner).pMethods).$method {
                Some(method) => method(inner $(, $argument)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives us the memory that we asked for.
    let (head, inner) = unsafe { (head(file), inner(file)) };
    head.methods = null();
    head.file = null_mut();
    // SAFETY: as above.
    let found = unsafe { path_of(name) }.and_then(|path| Some((path, tape_of(path)?)));
    let open = || {
        // SAFETY: the file system below is there for ever, and gets what SQLite gave us.
        unsafe {
            match (*below()).xOpen {
                Some(open) => open(below(), name, inner, flags, out_flags),
                None => ffi::SQLITE_CANTOPEN,
            }
        }
    };
    let done = match found {
        None => open(),
        Some((path, (tape, name))) => {
            let done = tape.note(|| {
                let done = open();
                let is_there = done == ffi::SQLITE_OK && path.exists();
                (done, if is_there { tape.meet(&name) } else { vec![] })
            });
            let log_or_journal = ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL;
            let syncs_folder = flags & log_or_journal != 0 && flags & ffi::SQLITE_OPEN_CREATE != 0;
            if done == ffi::SQLITE_OK {
                head.file = Box::into_raw(Box::new(File { tape, name, syncs_folder }));
            }
            done
        }
    };
    if done == ffi::SQLITE_OK {
        head.methods = &raw const METHODS;
    }
    done
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    let delete = || {
        // SAFETY: the file system below is there for ever, and gets what SQLite gave us.
        unsafe {
            match (*below()).xDelete {
                Some(delete) => delete(below(), name, 0),
                None => ffi::SQLITE_IOERR_DELETE,
            }
        }
    };
    // SAFETY: SQLite names files by C strings.
    let found = unsafe { path_of(name) }.and_then(tape_of);
    let Some((tape, name)) = found else { return delete() };
    let done = tape.note(|| {
        let done = delete();
        (done, if done == ffi::SQLITE_OK { tape.part(name) } else { vec![] })
    });
    if done == ffi::SQLITE_OK && sync != 0 {
        tape.sync(vec![Step::SyncFolder]);
    }
    done
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // The third version would map files into memory, past us.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: the file is one of ours.
    let head = unsafe { head(file) };
    if !head.file.is_null() {
        // SAFETY: `open` made it, and it is not used again.
        drop(unsafe { Box::from_raw(head.file) });
        head.file = null_mut();
    }
    pass!(file, xClose)
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: the file is one of ours.
    let Some(noted) = (unsafe { noted(file) }) else { return pass!(file, xWrite, bytes, length, offset) };
    noted.tape.note(|| {
        let done = pass!(file, xWrite, bytes, length, offset);
        if done != ffi::SQLITE_OK {
            return (done, vec![]);
        }
        let (at, length) = (usize::try_from(offset).unwrap_or(0), usize::try_from(length).unwrap_or(0));
        // SAFETY: SQLite says that there are so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) }.to_vec();
        (done, vec![Step::Write { name: Arc::clone(&noted.name), offset: at, bytes }])
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    // SAFETY: the file is one of ours.
    let Some(noted) = (unsafe { noted(file) }) else { return pass!(file, xTruncate, size) };
    noted.tape.note(|| {
        let done = pass!(file, xTruncate, size);
        let size = usize::try_from(size).unwrap_or(0);
        let step = Step::Resize { name: Arc::clone(&noted.name), size };
        (done, if done == ffi::SQLITE_OK { vec![step] } else { vec![] })
    })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: the file is one of ours.
    let Some(noted) = (unsafe { noted(file) }) else { return pass!(file, xSync, flags) };
    let mut steps = vec![Step::Sync { name: Arc::clone(&noted.name) }];
    if std::mem::take(&mut noted.syncs_folder) {
        steps.push(Step::SyncFolder);
    }
    noted.tape.sync(steps);
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    bytes: *mut c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    pass!(file, xRead, bytes, length, offset)
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    pass!(file, xFileSize, size)
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    pass!(file, xCheckReservedLock, out)
}

unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, what: c_int, with: *mut c_void) -> c_int {
    pass!(file, xFileControl, what, with)
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    pass!(file, xSectorSize)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    pass!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    pass!(file, xShmMap, page, size, extend, out)
}

unsafe extern "C" fn shm_lock(file: *mut ffi::sqlite3_file, at: c_int, count: c_int, flags: c_int) -> c_int {
    pass!(file, xShmLock, at, count, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: the file is one of ours.
    unsafe {
        let inner = inner(file);
        if let Some(barrier) = (*(*inner).pMethods).xShmBarrier {
            barrier(inner);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    pass!(file, xShmUnmap, delete)
}
