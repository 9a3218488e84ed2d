// Shows the OpenAPI document. Calls from the page use the console's session, so they carry its CSRF token.
const page = document.getElementById("api");

const cookie = (name) =>
  document.cookie.split("; ").find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1);

window.SwaggerUIBundle({
  url: page.dataset.document,
  domNode: page,
  deepLinking: true,
  requestInterceptor: (request) => {
    const token = cookie("csrftoken");
    if (token && request.method !== "GET") request.headers["X-CSRFToken"] = token;
    return request;
  },
});
