// The calls that a server in Rust makes: threads, locks, sockets, files, panics and children.
// It prints "served" where all of them are answered.
use std::{env, fs, io::{Read, Write}, os::unix::net::{UnixListener, UnixStream}, process::Command, sync::{mpsc, Arc, Condvar, Mutex, RwLock}, thread, time::{Duration, Instant, SystemTime}, collections::HashMap};
fn main() {
    let dir = env::var("PLUGIN_UNIX_SOCKET_DIR").unwrap_or("/tmp".into());
    let path = format!("{dir}/r");
    let _ = fs::remove_file(&path);
    let l = UnixListener::bind(&path).expect("bind");
    l.set_nonblocking(true).unwrap();
    let _ = l.accept();
    let (mut a, mut b) = UnixStream::pair().expect("pair");
    a.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    b.write_all(b"hello").unwrap(); let mut buf = [0u8; 5]; a.read_exact(&mut buf).unwrap();
    let m: HashMap<i32, i32> = (0..10).map(|i| (i, i)).collect();
    let lock = Arc::new((Mutex::new(0), Condvar::new())); let rw = Arc::new(RwLock::new(0));
    let (tx, rx) = mpsc::channel();
    let hs: Vec<_> = (0..8).map(|i| { let (lock, rw, tx) = (lock.clone(), rw.clone(), tx.clone()); thread::Builder::new().name(format!("w{i}")).spawn(move || {
        let x: Vec<f64> = (0..1 << 18).map(|j| (j as f64 * 1e-3).tanh()).collect(); let s: f64 = x.iter().sum();
        let g = lock.0.lock().unwrap(); let (mut g, _) = lock.1.wait_timeout(g, Duration::from_millis(2)).unwrap(); *g += 1; drop(g); lock.1.notify_all();
        *rw.write().unwrap() += 1; thread::sleep(Duration::from_millis(1)); thread::yield_now(); tx.send(s).unwrap(); }).unwrap() }).collect();
    for h in hs { h.join().unwrap(); } drop(tx);
    let s: f64 = rx.iter().sum();
    let _ = std::panic::catch_unwind(|| panic!("x"));
    let _ = (Instant::now(), SystemTime::now(), thread::available_parallelism(), env::current_exe(), env::current_dir(), fs::metadata("/etc/passwd"));
    for e in fs::read_dir("/etc").unwrap().take(2) { let _ = e.unwrap().file_type(); }
    let _ = fs::read("/etc/hostname");
    let _ = thread::spawn(|| { panic!("in a thread") }).join();
    let o = Command::new("true").output(); let e = Command::new("echo").arg("hi").output();
    assert!(s > 0.0 && m.len() == 10 && o.unwrap().status.success() && e.unwrap().stdout == b"hi\n");
    println!("served");
    fs::remove_file(&path).unwrap();
}
