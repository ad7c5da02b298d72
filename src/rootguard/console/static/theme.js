try{let t=localStorage.getItem("rootguard-theme");(t==="light"||t==="dark")&&(document.documentElement.dataset.theme=t)}catch{}
