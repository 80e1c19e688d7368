// The page Ask: sliders beside the weights, and fields that exclude each other.

const WIDE = matchMedia("(min-width: 60rem)");
let open = null;

/** Put a slider beside the field of a weight; a field that is left empty sends nothing. */
function slide(row) {
  const field = row.querySelector("input");
  const configured = Number(row.dataset.configured);
  const label = row.querySelector("label").textContent;
  const slider = document.createElement("input");
  const reset = document.createElement("button");
  const most = Math.max(10, 2 * Math.abs(configured), 2 * Math.abs(Number(field.value)));
  slider.type = "range";
  slider.min = -most;
  slider.max = most;
  slider.step = most / 100;
  slider.setAttribute("aria-label", `${label}, slider`);
  reset.type = "button";
  reset.textContent = "as configured";
  reset.setAttribute("aria-label", `${label} as configured`);
  const follow = () => {
    const set = field.value !== "";
    slider.value = set ? field.value : configured;
    slider.setAttribute("aria-valuetext", set ? field.value : `as configured, ${configured}`);
    row.toggleAttribute("data-set", set);
    reset.disabled = !set;
  };
  slider.addEventListener("input", () => {
    field.value = Number(Number(slider.value).toPrecision(6));
    follow();
  });
  field.addEventListener("input", follow);
  reset.addEventListener("click", () => {
    field.value = "";
    follow();
    slider.focus();
  });
  row.append(slider, reset);
  follow();
}

/** A flavor that is chosen has its own sizes: those that are typed are not sent then. */
function choose(select) {
  const typed = select.form.querySelectorAll("[data-sizes], [name=property]");
  const follow = () => typed.forEach((field) => (field.disabled = select.value !== ""));
  select.addEventListener("change", follow);
  follow();
}

function prepare() {
  document.querySelectorAll("[data-multiplier]").forEach(slide);
  document.querySelectorAll("[data-flavor]").forEach(choose);
}

document.addEventListener("submit", (event) => {
  if (!event.target.closest("#question")) return;
  open = [...document.querySelectorAll("main details[open][id]")].map((one) => one.id);
});

document.addEventListener("shown", () => {
  // Who changes one value after another keeps the fields in view, where there is room.
  for (const id of WIDE.matches && open ? open : []) {
    const details = document.getElementById(id);
    if (details) details.open = true;
  }
  open = null;
  prepare();
});

prepare();
