#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
/* a driver without a device: memory is the host's, launches keep their parameters */
#define OK 0
static int launches=0; static uint64_t words[256]; static unsigned grid[2]; static char entry[4096]; static int nwords=0, broken=0;
/* from now on every call tells that a kernel failed, as a real driver does */
void pretend_break(void){broken=700;}
int cuInit(unsigned f){return OK;}
int cuDriverGetVersion(int*v){*v=12040;return OK;}
int cuGetErrorName(int n,const char**s){*s= n==2?"CUDA_ERROR_OUT_OF_MEMORY": n==600?"CUDA_ERROR_NOT_READY": n==700?"CUDA_ERROR_ILLEGAL_ADDRESS":"CUDA_ERROR_OTHER";return OK;}
int cuGetErrorString(int n,const char**s){*s= n==700?"an illegal memory access was encountered":"other";return OK;}
int cuDeviceGetCount(int*n){*n=1;return OK;}
int cuDeviceGet(int*d,int i){*d=0;return OK;}
int cuDeviceGetName(char*s,int n,int d){strncpy(s,"Pretended GPU",n);return OK;}
int cuDeviceTotalMem_v2(size_t*n,int d){*n=1ull<<30;return OK;}
int cuDeviceGetAttribute(int*v,int a,int d){*v= a==75?9: a==76?0: a==16?132:32;return OK;}
int cuDevicePrimaryCtxRetain(void**c,int d){*c=(void*)0x123456789abcull;return OK;}
static __thread void*current=0;
int cuCtxSetCurrent(void*c){current=c;return OK;}
static int waits=0; int pretend_waits(void){return waits;} /* calls in which a real driver waits for the device */
int cuCtxSynchronize(void){waits++; return broken?broken:current?OK:201;}
static size_t used=0;
int cuMemAlloc_v2(uint64_t*p,size_t n){ if(!current) return 201; if(n>(1ull<<28)) return 2; *p=(uint64_t)malloc(n); used+=n; return OK;}
static int freed=0; int pretend_freed(void){return freed;}
int cuMemFree_v2(uint64_t p){if(!current) return 201; free((void*)p); freed++; return OK;}
int cuMemGetInfo_v2(size_t*f,size_t*t){*t=1ull<<30;*f=*t-used;return OK;}
int cuMemHostAlloc(void**p,size_t n,unsigned f){*p=malloc(n);return OK;}
int cuMemFreeHost(void*p){free(p);return OK;}
int cuMemcpyHtoD_v2(uint64_t d,const void*s,size_t n){waits++; if(!current) return 201; memcpy((void*)d,s,n);return OK;}
int cuMemcpyDtoH_v2(void*d,uint64_t s,size_t n){waits++; if(!current) return 201; memcpy(d,(void*)s,n);return OK;}
int cuMemcpyHtoDAsync_v2(uint64_t d,const void*s,size_t n,void*q){if(!current) return 201; memcpy((void*)d,s,n);return OK;}
int cuMemcpyDtoHAsync_v2(void*d,uint64_t s,size_t n,void*q){if(!current) return 201; memcpy(d,(void*)s,n);return OK;}
int cuStreamCreate(void**s,unsigned f){*s=(void*)0x7f0011223344ull;return OK;}
int cuStreamDestroy_v2(void*s){return OK;}
int cuStreamSynchronize(void*s){waits++; return OK;}
int cuStreamWaitEvent(void*s,void*e,unsigned f){return OK;}
int cuEventCreate(void**e,unsigned f){*e=(void*)0x7f5566778899ull;return OK;}
int cuEventDestroy_v2(void*e){return OK;}
int cuEventRecord(void*e,void*s){return OK;}
int cuEventQuery(void*e){return 600;}
int cuEventSynchronize(void*e){waits++; return OK;}
int cuEventElapsedTime(float*f,void*a,void*b){*f=1.5f;return OK;}
int cuModuleLoadDataEx(void**m,const char*t,unsigned n,int*o,void**v){ *m=(void*)strdup(t); return OK;}
int cuModuleGetFunction(void**f,void*m,const char*name){ char entry[4200]; snprintf(entry,sizeof entry,".entry %s(",name); if(!strstr((char*)m,entry)) return 500; int k=0; char*p=(char*)m; while((p=strstr(p,".param .")) ){k++;p++;} *f=(void*)(uint64_t)(0x100000000ull+k); return OK;}
int cuFuncGetAttribute(int*v,int a,void*f){*v=32;return OK;}
int cuLaunchKernel(void*f,unsigned gx,unsigned gy,unsigned gz,unsigned bx,unsigned by,unsigned bz,unsigned sh,void*s,void**p,void**x){
  if(broken) return broken; if(!current) return 201; if(!gx||!bx||gx>2147483647u||bx>1024) return 1; nwords=(int)((uint64_t)f & 0xffffffff); for(int i=0;i<nwords&&i<256;i++) words[i]=*(uint64_t*)p[i]; grid[0]=gx; grid[1]=bx; launches++; return OK;}
int pretend_last(uint64_t*w,unsigned*g){memcpy(w,words,8*nwords); g[0]=grid[0]; g[1]=grid[1]; return nwords;}
